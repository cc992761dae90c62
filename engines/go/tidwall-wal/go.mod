module engine

go 1.24

require (
	github.com/tidwall/wal v1.2.1
	kvsim/adapter v0.0.0
)

require (
	github.com/tidwall/gjson v1.10.2 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.0 // indirect
	github.com/tidwall/tinylru v1.1.0 // indirect
)

replace kvsim/adapter => ../../adapter/go

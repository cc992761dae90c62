module engine

go 1.24

require (
	github.com/tidwall/buntdb v1.2.1
	kvsim/adapter v0.0.0
)

require (
	github.com/tidwall/btree v0.4.2 // indirect
	github.com/tidwall/gjson v1.7.4 // indirect
	github.com/tidwall/grect v0.1.1 // indirect
	github.com/tidwall/match v1.0.3 // indirect
	github.com/tidwall/pretty v1.1.0 // indirect
	github.com/tidwall/rtred v0.1.2 // indirect
	github.com/tidwall/tinyqueue v0.1.1 // indirect
)

replace kvsim/adapter => ../../../../adapter/go

module engine

go 1.24

require (
	github.com/peterbourgon/diskv/v3 v3.0.1
	kvsim/adapter v0.0.0
)

require github.com/google/btree v1.0.0 // indirect

replace kvsim/adapter => ../../adapter/go

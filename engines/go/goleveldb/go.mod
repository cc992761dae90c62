module engine

go 1.24

require kvsim/adapter v0.0.0

require (
	github.com/golang/snappy v0.0.4 // indirect
	github.com/syndtr/goleveldb v1.0.1-0.20220721030215-126854af5e6d
)

replace kvsim/adapter => ../../adapter/go

module engine

go 1.24

require kvsim/adapter v0.0.0

require (
	github.com/golang/snappy v0.0.0-20180518054509-2e65f85255db // indirect
	github.com/syndtr/goleveldb v1.0.0
)

replace kvsim/adapter => ../../../../adapter/go

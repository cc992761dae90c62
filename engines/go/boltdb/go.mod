module engine

go 1.26.0

require (
	github.com/boltdb/bolt v1.3.1
	kvsim/adapter v0.0.0
)

require golang.org/x/sys v0.49.0 // indirect

replace kvsim/adapter => ../../adapter/go

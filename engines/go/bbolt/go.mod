module engine

go 1.25.0

require (
	go.etcd.io/bbolt v1.5.0
	kvsim/adapter v0.0.0
)

require golang.org/x/sys v0.45.0 // indirect

replace kvsim/adapter => ../../adapter/go

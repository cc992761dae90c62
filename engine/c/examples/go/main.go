// The same as example.c in Go. Takes the path of the database.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"

	"example/kvdb"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func text(value []byte, found bool, err error) string {
	check(err)
	if !found {
		return "nothing"
	}
	return string(value)
}

func main() {
	path := "example.kvdb"
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	db, err := kvdb.Open(path, kvdb.Options{"size_bytes": 16 << 20})
	check(err)

	// A write that has returned survives a power cut; a relaxed one does a moment later.
	check(db.Put([]byte("user/1"), []byte("Ada"), kvdb.Durable))
	check(db.Put([]byte("user/2"), []byte("Grace"), kvdb.Relaxed))
	check(db.Put([]byte("visit/1"), []byte("home"), kvdb.Relaxed))
	fmt.Println("user/1:", text(db.Get([]byte("user/1"))))

	// A snapshot stays as it is while a batch is written, all of it or nothing.
	snapshot, err := db.Snapshot()
	check(err)
	batch := kvdb.NewBatch()
	batch.Delete([]byte("user/1"))
	batch.Put([]byte("user/3"), []byte("Edsger"))
	check(db.Write(batch, kvdb.Durable))
	fmt.Println("user/1 now:", text(db.Get([]byte("user/1"))))
	fmt.Println("user/1 in the snapshot:", text(snapshot.Get([]byte("user/1"))))
	snapshot.Close()

	// The users, the last first.
	for key, value := range db.Backward([]byte("user/"), []byte("user0"), &err) {
		fmt.Println(string(key), "=", string(value))
	}
	check(err)

	// What fails says why.
	var failure *kvdb.Error
	if errors.As(db.Put(nil, nil, kvdb.Durable), &failure) {
		fmt.Printf("status %d: %s\n", failure.Status, failure.Message)
	}
	check(db.Close())
}

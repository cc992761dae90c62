package adapter

import (
	"encoding/binary"
	"io"
	"os"
)

// Directory is where kvsim's host puts the database.
const Directory = "/db"

var server *Server

// Serve says which engine the messages are for. Call it from an init function, since a reactor's main is not called.
func Serve(offers Offers, open OpenFunc) { server = NewServer(Directory, offers, open) }

// Stdio answers messages from stdin on stdout until stdin ends: each is a u32 length, then the bytes. It panics on a failure of either.
// The database is in Directory, or in the directory that the program's first argument names, which a native program is given.
func Stdio() {
	if len(os.Args) > 1 {
		server.directory = os.Args[1]
	}
	for {
		var length [4]byte
		_, err := io.ReadFull(os.Stdin, length[:])
		if err == io.EOF {
			return
		}
		must(err)
		message := make([]byte, binary.LittleEndian.Uint32(length[:]))
		_, err = io.ReadFull(os.Stdin, message)
		must(err)
		answer := server.Answer(message)
		binary.LittleEndian.PutUint32(length[:], uint32(len(answer)))
		_, err = os.Stdout.Write(append(length[:], answer...))
		must(err)
	}
}

func must(err error) {
	if err != nil {
		panic("kvsim adapter: stdin or stdout: " + err.Error())
	}
}

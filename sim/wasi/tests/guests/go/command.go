//go:build command

package main

import (
	"encoding/binary"
	"io"
	"os"
)

func main() {
	head := make([]byte, 4)
	for {
		if _, err := io.ReadFull(os.Stdin, head); err != nil {
			return
		}
		message := make([]byte, u32(head))
		if _, err := io.ReadFull(os.Stdin, message); err != nil {
			return
		}
		reply := handle(message)
		os.Stdout.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(reply))), reply...))
	}
}

// Package hostmap maps files for reading, which WASI preview 1 has not: kvsim's host copies a file's bytes to an address, and keeps them equal
// to the file whatever changes it, until they are unmapped. For files that stand for an engine's own that call mmap.
//
// Built for another system than WASI it is empty: an engine maps its files itself.
package hostmap

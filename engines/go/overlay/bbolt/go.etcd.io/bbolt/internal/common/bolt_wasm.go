package common

// The same bounds as bbolt has for other machines whose memory ends at 4 GiB.

// MaxMapSize is the largest mapping. Bytes.
const MaxMapSize = 0x7FFFFFFF

// MaxAllocSize bounds the arrays that pointers are converted to.
const MaxAllocSize = 0xFFFFFFF

package bolt

// The same bounds as Bolt has for other machines whose memory ends at 4 GiB.

const maxMapSize = 0x7FFFFFFF

const maxAllocSize = 0xFFFFFFF

// Bolt 1.3 asks whether the machine refuses numbers that are not aligned; WebAssembly takes them.
var brokenUnaligned = false

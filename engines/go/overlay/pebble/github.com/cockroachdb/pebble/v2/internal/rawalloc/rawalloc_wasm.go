package rawalloc

// The same bound as for other machines whose memory ends at 4 GiB.
const maxArrayLen = 1<<31 - 1

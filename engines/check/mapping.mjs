// The imports of module `kvsim`: read-only mappings of files, for engines that read through one and write by `pwrite`.
// Node has no such thing for a module's memory. So each call that changes a file is followed by a new read of all mappings of the module.

/** WASI's imports and `kvsim`'s, for a module with this memory. */
export function imports(wasi, memory) {
  const mapped = [];
  const fill = ({ fd, offset, address, length }) => {
    // The vector and the count for fd_pread stand for a moment where the module's memory begins, and are taken away again.
    const kept = memory().slice(0, 16);
    const view = () => new DataView(memory().buffer);
    let [done, errno] = [0, 0];
    while (done < length && errno === 0) {
      view().setUint32(0, address + done, true);
      view().setUint32(4, length - done, true);
      errno = wasi.fd_pread(fd, 0, 1, offset + BigInt(done), 8);
      const got = view().getUint32(8, true);
      if (got === 0) break;
      done += got;
    }
    memory().set(kept, 0);
    memory().fill(0, address + done, address + length);
    return errno;
  };
  const after = (call) => (...args) => {
    const errno = call(...args);
    mapped.forEach(fill);
    return errno;
  };
  const changing = ['fd_write', 'fd_pwrite', 'fd_filestat_set_size', 'fd_allocate'];
  const wrapped = Object.fromEntries(changing.map((name) => [name, after(wasi[name])]));
  return {
    wasi_snapshot_preview1: { ...wasi, ...wrapped },
    kvsim: {
      map: (fd, offset, address, length) => {
        const mapping = { fd, offset, address: address >>> 0, length: length >>> 0 };
        const errno = fill(mapping);
        if (errno === 0) mapped.push(mapping);
        return errno;
      },
      unmap: (address) => {
        const at = mapped.findIndex((it) => it.address === address >>> 0);
        if (at < 0) return 28;
        mapped.splice(at, 1);
        return 0;
      },
    },
  };
}

//! A real directory takes files in.

use std::fs::{self, File};
use std::io::{self, Error, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use kvsim_fs::{FileSystem, Sink};

/// Whether this directory can take files in: it is not there, or has nothing in it.
///
/// # Errors
/// A sentence: it has something in it, is no directory, or cannot be read.
pub fn is_new_or_empty(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    let mut entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| format!("cannot write files into {shown}: {error}"))?,
    };
    if entries.next().is_none() {
        return Ok(());
    }
    Err(format!(
        "{shown} is not empty\n  = help: name a directory that is new or empty"
    ))
}

/// Writes all files into a directory that is new or empty.
///
/// # Errors
/// A sentence: it is neither, or a call failed.
pub fn write_files(files: &FileSystem, directory: &Path) -> Result<(), String> {
    is_new_or_empty(directory)?;
    let written = fs::create_dir_all(directory).and_then(|()| {
        files.write_out(&mut Directory {
            root: directory.to_owned(),
            file: None,
        })
    });
    written.map_err(|error| format!("cannot write files into {}: {error}", directory.display()))
}

struct Directory {
    root: PathBuf,
    /// The last one, which gets bytes.
    file: Option<File>,
}

impl Directory {
    fn path(&self, path: &[u8]) -> io::Result<PathBuf> {
        let text = std::str::from_utf8(path);
        let text = text.map_err(|_| Error::new(ErrorKind::InvalidData, "a name is not UTF-8"))?;
        Ok(self.root.join(text))
    }
}

impl Sink for Directory {
    fn directory(&mut self, path: &[u8]) -> io::Result<()> {
        fs::create_dir(self.path(path)?)
    }

    fn file(&mut self, path: &[u8], size: u64) -> io::Result<()> {
        let file = File::create_new(self.path(path)?)?;
        file.set_len(size)?;
        self.file = Some(file);
        Ok(())
    }

    fn bytes(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file.as_mut();
        let file = file.ok_or_else(|| Error::other("bytes came before a file"))?;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> io::Result<()> {
        let target = std::str::from_utf8(target);
        let target =
            target.map_err(|_| Error::new(ErrorKind::InvalidData, "a target is not UTF-8"))?;
        #[cfg(unix)]
        return std::os::unix::fs::symlink(target, self.path(path)?);
        #[cfg(not(unix))]
        {
            let _ = (path, target);
            Err(Error::new(ErrorKind::Unsupported, "a symbolic link"))
        }
    }

    fn link(&mut self, path: &[u8], of: &[u8]) -> io::Result<()> {
        fs::hard_link(self.path(of)?, self.path(path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: nothing that is there is overwritten. Method: a directory with a file, a file in place of a directory, an empty directory, none.
    #[test]
    fn only_a_new_or_empty_directory_takes_files() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("file");
        fs::write(&file, "here").expect("it can be written");
        let error = is_new_or_empty(place.path()).expect_err("it has a file");
        assert!(error.contains("is not empty"), "{error}");
        assert!(is_new_or_empty(&file).is_err());
        fs::remove_file(&file).expect("it is there");
        assert_eq!(is_new_or_empty(place.path()), Ok(()));
        assert_eq!(is_new_or_empty(&place.path().join("new")), Ok(()));
    }

    /// Goal: what is written is what there was: bytes, holes, directories and links. Method: calls on a file system, then the real directory.
    #[test]
    fn files_are_written_as_they_are() {
        use kvsim_fs::{FileConfig, OpenHow, ROOT_FD};
        let mut files =
            FileSystem::new(&FileConfig::default(), 1).expect("the default is possible");
        files
            .create_directory(ROOT_FD, b"below")
            .expect("it is new");
        let how = OpenHow {
            write: true,
            create: true,
            ..OpenHow::READ
        };
        let fd = files.open(ROOT_FD, b"below/data", &how).expect("it is new");
        files.write_at(fd, 10_000, b"end").expect("there is space");
        files
            .link(ROOT_FD, b"below/data", false, ROOT_FD, b"other")
            .expect("it is there");
        files
            .symlink(b"below/data", ROOT_FD, b"link")
            .expect("it is new");
        let place = tempfile::tempdir().expect("a directory");
        let to = place.path().join("out");
        write_files(&files, &to).expect("it can be written");
        let bytes = fs::read(to.join("other")).expect("it is there");
        assert_eq!((bytes.len(), &bytes[10_000..]), (10_003, &b"end"[..]));
        assert!(bytes[..10_000].iter().all(|byte| *byte == 0));
        assert_eq!(fs::read(to.join("link")).expect("it leads on"), bytes);
        assert!(
            write_files(&files, &to)
                .expect_err("it is full")
                .contains("not empty")
        );
    }
}

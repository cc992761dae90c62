//! An engine for tests that keeps each key in a file of its own, and does it with all that Rust's standard library has for files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

const DESCRIPTION: &str = "abi=1\nengine=rust-std 1\nsettings=a file for each key\nbatch=false\nscan=false\nreverse_scan=false\n\
                           snapshot=false\nrelaxed=false\nsync=true\norder=each\n";

static mut BUFFER: Vec<u8> = Vec::new();
static mut ANSWER: Vec<u8> = Vec::new();

#[unsafe(no_mangle)]
extern "C" fn kv_buffer(len: i32) -> i32 {
    // One thread, and no call while another is under way.
    let buffer = unsafe { &mut *&raw mut BUFFER };
    buffer.resize(len as usize, 0);
    buffer.as_mut_ptr() as i32
}

#[unsafe(no_mangle)]
extern "C" fn kv_message(len: i32) -> i64 {
    let message = unsafe { &(&*&raw const BUFFER)[..len as usize] };
    let answer = unsafe { &mut *&raw mut ANSWER };
    *answer = handle(message);
    (answer.as_ptr() as i64) << 32 | answer.len() as i64
}

fn number(bytes: &[u8]) -> usize {
    u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize
}

fn answer(status: u32, body: &[u8]) -> Vec<u8> {
    [&status.to_le_bytes(), body].concat()
}

fn done(result: io::Result<()>) -> Vec<u8> {
    match result {
        Ok(()) => answer(0, b""),
        Err(error) => answer(3, error.to_string().as_bytes()),
    }
}

fn place(key: &[u8]) -> PathBuf {
    let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    PathBuf::from("/db/keys").join(name)
}

fn handle(message: &[u8]) -> Vec<u8> {
    match number(message) {
        0 => answer(0, DESCRIPTION.as_bytes()),
        1 => {
            let options = String::from_utf8_lossy(&message[32..]).into_owned();
            done(open(&options))
        }
        2 => request(&message[12..]),
        _ => answer(0, b""),
    }
}

fn open(options: &str) -> io::Result<()> {
    fs::create_dir_all("/db/keys")?;
    File::open("/db")?.sync_all()?;
    for left in fs::read_dir("/db/keys")? {
        let left = left?;
        if left.path().extension().is_some_and(|it| it == "new") {
            fs::remove_file(left.path())?;
        }
    }
    match options.trim() {
        "misbehave=tour" => tour(),
        "misbehave=panic" => panic!("as asked"),
        "misbehave=abort" => std::process::abort(),
        "misbehave=out" => File::open("/db/../etc/passwd").map(|_| ()),
        "misbehave=etc" => File::open("/etc/passwd").map(|_| ()),
        "misbehave=recurse" => recurse(1).map(|_| ()),
        "misbehave=thread" => std::thread::Builder::new().spawn(|| ()).map(|_| ()),
        "misbehave=fill" => fill(),
        _ => Ok(()),
    }
}

fn recurse(depth: u64) -> io::Result<u64> {
    let large = std::hint::black_box([depth; 16]);
    Ok(recurse(depth + 1)? + std::hint::black_box(large)[3])
}

/// Writes until there is no space, gives the space back, and says what it met.
fn fill() -> io::Result<()> {
    let mut file = File::create("/db/large")?;
    loop {
        if let Err(error) = file.write_all(&[1; 65_536]) {
            fs::remove_file("/db/large")?;
            return Err(error);
        }
    }
}

/// Calls that no key needs, each checked.
fn tour() -> io::Result<()> {
    fn check(is_right: bool, what: &str) -> io::Result<()> {
        if is_right { Ok(()) } else { Err(io::Error::other(format!("tour: {what}"))) }
    }
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open("/db/tour")?;
    file.write_all(b"hello world")?;
    file.seek(SeekFrom::Start(6))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    check(text == "world", "read after seek")?;
    file.set_len(5)?;
    check(file.metadata()?.len() == 5, "set_len")?;
    file.sync_data()?;
    OpenOptions::new().append(true).open("/db/tour")?.write_all(b"!")?;
    check(fs::read("/db/tour")? == b"hello!", "append")?;
    fs::hard_link("/db/tour", "/db/link")?;
    fs::rename("/db/link", "/db/moved")?;
    check(fs::metadata("/db/moved")?.is_file(), "rename")?;
    // A relative path is one of /db.
    check(fs::read("moved")? == b"hello!", "a relative path")?;
    let names: Vec<_> = fs::read_dir("/db")?.map(|it| it.unwrap().file_name()).collect();
    check(names.len() == 3, "read_dir")?;
    check(OpenOptions::new().write(true).create_new(true).open("/db/tour").is_err(), "create_new")?;
    fs::copy("/db/tour", "/db/copy")?;
    for name in ["tour", "moved", "copy"] {
        fs::remove_file(PathBuf::from("/db").join(name))?;
    }
    fs::create_dir_all("/db/a/b/c")?;
    fs::remove_dir_all("/db/a")?;
    check(!fs::exists("/db/a")?, "remove_dir_all")?;
    let (begun, wall) = (Instant::now(), SystemTime::now());
    std::thread::sleep(Duration::from_millis(20));
    check(begun.elapsed() >= Duration::from_millis(20), "sleep")?;
    check(wall.elapsed().is_ok_and(|it| it >= Duration::from_millis(20)), "the clock")?;
    check(std::env::var("PWD").as_deref() == Ok("/db"), "the environment")?;
    println!("the tour is done");
    Ok(())
}

fn request(request: &[u8]) -> Vec<u8> {
    match request[0] {
        1 => {
            let (key, value) = (number(&request[4..]), number(&request[8..]));
            if key == 0 {
                return answer(6, b"");
            }
            let (key, value) = request[12..12 + key + value].split_at(key);
            done(put(key, value))
        }
        2 => {
            let key = &request[8..8 + number(&request[4..])];
            done(delete(key))
        }
        4 => {
            let key = &request[16..16 + number(&request[12..])];
            match fs::read(place(key)) {
                Ok(value) => answer(0, &value),
                Err(error) if error.kind() == io::ErrorKind::NotFound => answer(1, b""),
                Err(error) => answer(3, error.to_string().as_bytes()),
            }
        }
        8 | 9 => done(sync()),
        _ => answer(6, b"not offered"),
    }
}

fn sync() -> io::Result<()> {
    File::open("/db/keys")?.sync_all()
}

fn put(key: &[u8], value: &[u8]) -> io::Result<()> {
    let path = place(key);
    let draft = path.with_extension("new");
    let mut file = File::create(&draft)?;
    file.write_all(value)?;
    file.sync_all()?;
    fs::rename(&draft, &path)?;
    sync()
}

fn delete(key: &[u8]) -> io::Result<()> {
    match fs::remove_file(place(key)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync(),
    }
}

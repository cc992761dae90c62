//! Reports as a browser shows them: headless Chromium draws each page without scripts and without a network, and the picture is looked at.
//!
//! Where there is no Chromium, nothing is looked at and that is said; with `KVSIM_REQUIRE_BROWSER=1` that is a failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use zune_png::PngDecoder;
use zune_png::zune_core::bytestream::ZCursor;

use crate::bench::brief;
use crate::{SHORT, ends};

/// What Chromium is called, here and there.
const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];
/// A desk's window, and a telephone's.
const WIDE: Window = Window {
    width: 1_280,
    height: 1_600,
    is_dark: false,
};
const NARROW: Window = Window {
    width: 400,
    height: 1_600,
    is_dark: false,
};
const DARK: Window = Window {
    is_dark: true,
    ..WIDE
};
/// The page's own margin: nothing may reach into it.
const MARGIN: u32 = 10;

#[derive(Debug, Clone, Copy)]
struct Window {
    width: u32,
    height: u32,
    is_dark: bool,
}

/// A browser with a profile of its own, in which scripts are forbidden.
struct Browser {
    program: &'static str,
    directory: TempDir,
}

impl Browser {
    /// Nothing if there is none, and none is required.
    #[expect(
        clippy::print_stderr,
        reason = "a test that looks at nothing has to say so"
    )]
    fn find() -> Option<Browser> {
        let works = |name: &&str| {
            let output = Command::new(name).arg("--version").output();
            output.is_ok_and(|output| output.status.success())
        };
        let Some(program) = NAMES.into_iter().find(works) else {
            let required = std::env::var("KVSIM_REQUIRE_BROWSER").is_ok_and(|value| value == "1");
            assert!(
                !required,
                "KVSIM_REQUIRE_BROWSER=1, and there is none of {NAMES:?}"
            );
            eprintln!("no Chromium here: the pages were not looked at");
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let profile = directory.path().join("profile/Default");
        std::fs::create_dir_all(&profile).expect("a profile");
        let settings = r#"{"profile":{"default_content_setting_values":{"javascript":2}}}"#;
        std::fs::write(profile.join("Preferences"), settings).expect("its settings");
        Some(Browser { program, directory })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens a page. No name can be resolved, and what the page would fetch is in the log all the same.
    fn open(&self, page: &Path, arguments: &[String]) -> String {
        let log = self.at("network.json");
        let output = Command::new(self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--hide-scrollbars",
                "--host-resolver-rules=MAP * ~NOTFOUND",
            ])
            .arg(format!("--user-data-dir={}", self.at("profile").display()))
            .arg(format!("--log-net-log={}", log.display()))
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(
            !fetches(&std::fs::read_to_string(&log).expect("a log")),
            "{} fetches something",
            page.display()
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The page as it stands in the end.
    fn read(&self, page: &Path) -> String {
        self.open(page, &["--dump-dom".to_owned()])
    }

    fn look(&self, page: &Path, window: Window) -> Picture {
        let (path, Window { width, height, .. }) = (self.at("picture.png"), window);
        let _ = std::fs::remove_file(&path);
        let mut arguments = vec![
            format!("--window-size={width},{height}"),
            format!("--screenshot={}", path.display()),
        ];
        if window.is_dark {
            arguments.push("--force-dark-mode".to_owned());
            arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        self.open(page, &arguments);
        let picture = Picture::load(&path);
        assert_eq!((picture.width, picture.height), (width, height));
        picture
    }
}

/// Whether a page asked for anything, by Chromium's own log. What the browser itself wants from its maker is of no origin.
fn fetches(log: &str) -> bool {
    log.split("\"initiator\":")
        .skip(1)
        .any(|rest| !rest.starts_with("\"not an origin\""))
}

struct Picture {
    width: u32,
    height: u32,
    /// Red, green and blue, row by row.
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn load(path: &Path) -> Picture {
        let bytes = std::fs::read(path).expect("a picture was made");
        let mut decoder = PngDecoder::new(ZCursor::new(bytes));
        let bytes = decoder.decode_raw().expect("a whole PNG");
        let (width, height) = decoder.dimensions().expect("it has a size");
        let samples = bytes.len() / (width * height);
        assert!((3..=4).contains(&samples), "it is in colour");
        let size = |pixels: usize| u32::try_from(pixels).expect("it is no giant");
        Picture {
            width: size(width),
            height: size(height),
            pixels: bytes
                .chunks_exact(samples)
                .map(|it| [it[0], it[1], it[2]])
                .collect(),
        }
    }

    /// The colour that most of it has, and what part of it that is.
    fn paper(&self) -> ([u8; 3], f64) {
        let mut counts: BTreeMap<[u8; 3], usize> = BTreeMap::new();
        for pixel in &self.pixels {
            *counts.entry(*pixel).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let (colour, count) = most.expect("it has pixels");
        (colour, count as f64 / self.pixels.len() as f64)
    }

    fn has(&self, colour: [u8; 3]) -> bool {
        self.pixels.contains(&colour)
    }

    /// Whether nothing reaches into the margins: what is wider than the window has to be scrolled by itself, and not the page.
    fn keeps_margins(&self) -> bool {
        let (paper, _) = self.paper();
        let rows = self.pixels.chunks_exact(self.width as usize);
        let margin = MARGIN as usize;
        rows.into_iter().all(|row| {
            let (left, right) = (&row[..margin], &row[row.len() - margin..]);
            left.iter().chain(right).all(|pixel| *pixel == paper)
        })
    }

    /// Something is written on it, not all over it, and nothing is cut off at the sides.
    #[track_caller]
    fn is_a_page(&self, what: &str) {
        let (_, share) = self.paper();
        assert!(
            (0.3..0.97).contains(&share),
            "{what}: {share} of it is paper"
        );
        assert!(self.keeps_margins(), "{what} is wider than its window");
    }

    fn is_dark(&self) -> bool {
        self.paper().0.iter().all(|part| *part < 80)
    }
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// In every window it is a page.
fn look_everywhere(browser: &Browser, page: &Path) -> Picture {
    for (window, is_dark) in [(NARROW, false), (DARK, true)] {
        let picture = browser.look(page, window);
        picture.is_a_page(&format!("{} in {window:?}", page.display()));
        assert_eq!(picture.is_dark(), is_dark, "{window:?}");
    }
    let picture = browser.look(page, WIDE);
    picture.is_a_page(&format!("{} in {WIDE:?}", page.display()));
    picture
}

/// Goal: the checks of this file notice what they are for. Method: a page that runs a script, fetches a picture and is too wide; and one with nothing on it.
#[test]
fn a_bad_page_is_noticed() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = browser.at("bad.html");
    let write = |body: &str| {
        let text = format!("<!DOCTYPE html><body style=\"margin: 20px\">{body}");
        std::fs::write(&page, text).expect("a page");
    };
    write("<p>quiet</p><script>document.body.innerHTML = 'loud'</script>");
    assert!(browser.read(&page).contains("<p>quiet</p>"), "scripts run");
    write("<div style=\"width: 2000px; height: 900px; background: red\">wide</div>");
    let wide = browser.look(&page, WIDE);
    assert!(!wide.keeps_margins() && wide.has([255, 0, 0]));
    write("");
    let (_, share) = browser.look(&page, WIDE).paper();
    assert!(share > 0.999, "a blank page");
    assert!(fetches(
        r#"{"initiator":"not an origin"},{"initiator":"null","url":"http://example.org/"}"#
    ));
    assert!(!fetches(r#"{"initiator":"not an origin"}"#));
    write("<img src=\"http://example.org/picture.png\">");
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| browser.read(&page)));
    assert!(opened.is_err(), "a page that fetches");
}

/// Goal: a failure's page can be read in a browser, at a desk, on a telephone and at night, with scripts forbidden: its sentence, what is to blame, the time
/// line, the blocks in their colours, and how to see it again. Method: the naive guest that acknowledges before it flushes, asked by eight clients,
/// explored and made small; drawn by Chromium.
#[test]
fn a_failure_is_readable_in_a_browser() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let (page, failures) = (browser.at("failure.html"), name(&browser.at("failures")));
    let arguments = [
        "explore",
        "tests/broken/acknowledged_durable.toml",
        "--set",
        "guest.options.break=acknowledged_durable",
        "--set",
        "explore.operations=40",
        "--guest",
        &name(kvsim_tests::naive_guest()),
        "--failures",
        &failures,
        "--minimise",
        "--report",
        &name(&page),
    ];
    let ended = ends(&arguments, 1, &["acknowledged_durable", "blame: "]);
    let said = |start: &str| {
        let mut lines = ended.stdout.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix(start));
        line.unwrap_or_else(|| panic!("no line {start}: {ended:#?}"))
            .replace('>', "&gt;")
    };
    let dom = browser.read(&page);
    for part in [
        "VIOLATION",
        "did not survive crash",
        &said("blame: "),
        &said("replay: "),
        "The operation concerned",
        "The device at the cut",
        "class=\"cell lost\"",
        "class=\"ack\"",
        "url(#lost)",
    ] {
        assert!(dom.contains(part), "the page has no {part}");
    }
    let picture = look_everywhere(&browser, &page);
    for (colour, what) in [
        ([0x33, 0x66, 0xcc], "writes of clients"),
        ([0xd1, 0x49, 0x5b], "the cut"),
        ([0x8f, 0xb3, 0xe8], "durable blocks"),
        ([0xa0, 0x51, 0x95], "flushes"),
    ] {
        assert!(picture.has(colour), "{what} cannot be seen");
    }
}

/// Goal: a torn write is drawn as such, and told. Method: mutant 10, which applies half of a batch whose frame is torn.
#[test]
fn a_torn_write_is_readable_in_a_browser() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let (page, failures) = (browser.at("torn.html"), name(&browser.at("failures")));
    let arguments = [
        "explore",
        "scenarios/mutants/torn.toml",
        "--set",
        "guest.options.mutant=torn_frame_applied_in_part",
        "--guest",
        &name(kvsim_tests::mutants_guest()),
        "--failures",
        &failures,
        "--report",
        &name(&page),
    ];
    ends(&arguments, 1, &["atomic_writes"]);
    let dom = browser.read(&page);
    for part in ["url(#torn)", "class=\"cell torn\"", "torn: of "] {
        assert!(dom.contains(part), "the page has no {part}");
    }
    look_everywhere(&browser, &page);
}

/// Goal: what went well can be read in a browser too. Method: the pages of a short run, with its curves, and of a short exploration, with its bars.
#[test]
fn a_clean_run_is_readable_in_a_browser() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = browser.at("clean.html");
    let file = name(&page);
    let run = ["run", "scenarios/powercut.toml", "--report", &file];
    ends(&[&run, &SHORT[..]].concat(), 0, &[]);
    let dom = browser.read(&page);
    for part in ["PASS", "Faults", "Latency and recovery", "polyline"] {
        assert!(dom.contains(part), "the page has no {part}");
    }
    look_everywhere(&browser, &page);
    let explore = [
        "explore",
        "scenarios/explore_small.toml",
        "--set",
        "explore.operations=4",
        "--report",
        &file,
    ];
    ends(&explore, 0, &[]);
    let dom = browser.read(&page);
    for part in ["PASS", "States by crash point"] {
        assert!(dom.contains(part), "the page has no {part}");
    }
    let picture = look_everywhere(&browser, &page);
    assert!(picture.has([0x2a, 0x9d, 0x6f]), "checked states are drawn");
}

/// Goal: the page of a measurement can be read in a browser. Method: a short one on the disk that holds the sources.
#[test]
fn a_measurement_is_readable_in_a_browser() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = browser.at("bench.html");
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (disk, file) = (name(directory.path()), name(&page));
    let mut arguments = brief("scenarios/bench/durable.toml", &disk);
    arguments.extend(["--report", &file]);
    ends(&arguments, 0, &[]);
    let dom = browser.read(&page);
    for part in ["Operations a second", "Latency", "polyline"] {
        assert!(dom.contains(part), "the page has no {part}");
    }
    look_everywhere(&browser, &page);
}

/// Goal: the page of a hunt can be read in a browser. Method: some mutants, their scenario, and that scenario without any.
#[test]
fn a_hunt_is_readable_in_a_browser() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let (page, failures) = (browser.at("mutants.html"), name(&browser.at("failures")));
    let (file, guest) = (name(&page), name(kvsim_tests::mutants_guest()));
    let mutants = [
        "torn_frame_applied_in_part",
        "empty_frame_ends_replay",
        "acknowledged_before_flush",
        "flush_on_a_timer",
        "length_trusted_unchecked",
        "torn_tail_refused",
        "checkpoint_before_log_flush",
        "table_incomplete",
        "single_root_copy",
    ];
    let more = ["--scenario", "torn", "--guest", &guest];
    let to = ["--failures", &failures, "--report", &file];
    let hunt = [&["mutants"], &mutants[..], &more, &to].concat();
    ends(&hunt, 0, &["9 of 9 caught"]);
    let dom = browser.read(&page);
    for part in [
        mutants[0],
        "ALL CAUGHT",
        "atomic_writes",
        "Without a mutant",
    ] {
        assert!(dom.contains(part), "the page has no {part}");
    }
    look_everywhere(&browser, &page);
}

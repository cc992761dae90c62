//! What an engine is opened with: the device's word about itself, and options as `name=value` lines.
//!
//! Invariant: an unknown option, a malformed value and one out of range are errors that name the option.

use crate::api::error::Error;
use crate::api::option_help::OPTIONS;
use crate::format::page::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::format::{HEADER_AREA_BYTES, INLINE_BYTES_MAX};

/// No option closes a frame that has fewer blocks: what the last one leaves unused has to be little.
pub(crate) const FRAME_BLOCKS_MIN: u64 = 8;

/// What the device says of itself.
#[derive(Debug, Clone)]
pub struct DeviceInfo {
    /// The unit of addressing.
    pub sector_bytes: u32,
    /// The unit below which a write may disturb its neighbours; never rewritten next to acknowledged bytes.
    pub physical_block_bytes: u32,
    /// A completed write is not durable before a flush.
    pub volatile_cache: bool,
    /// Writes may ask to be durable at completion.
    pub write_through: bool,
    /// The present size.
    pub capacity_bytes: u64,
    /// The size it can grow to; equal to the present size if it cannot.
    pub max_capacity_bytes: u64,
}

/// How commits become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitMode {
    /// Whatever was measured to be faster.
    #[default]
    Auto,
    /// A flush per group.
    Flush,
    /// Write-through frames, several in flight.
    WriteThrough,
}

/// What may be tuned. Zero means "derive from device and memory" where the field says so.
#[derive(Debug, Clone)]
pub struct Options {
    /// Size of a segment of a new database: a power of two from 16 KiB to 64 MiB. 0 means capacity/32, within 64
    /// KiB..=8 MiB, and less where the device has no room for 24 of them.
    pub segment_bytes: u64,
    /// Log written between checkpoints, at least, since it is never below twice what the last one wrote; 0: capacity/64 within 32 KiB..=64 MiB.
    pub checkpoint_bytes: u64,
    /// Bound of the value cache; 0 bytes means no cache, `None`: an eighth of the memory within 256 KiB..=32 MiB.
    pub cache_bytes: Option<u64>,
    /// Bound of accepted but unwritten bytes; 0: a sixteenth of the memory within 256 KiB..=8 MiB. Never more than
    /// capacity/32, since what a recovery may have to write anew has its space kept back.
    pub write_buffer_bytes: u64,
    /// A frame is closed when it reaches this size.
    pub frame_bytes: u64,
    /// Values up to this size live in the index, where they are read without a look at the log.
    pub inline_bytes: u64,
    /// Values above this size live in extents.
    pub large_value_bytes: u64,
    /// Larger values are refused.
    pub max_value_bytes: u64,
    /// How commits become durable.
    pub commit: CommitMode,
    /// Write-through frames in flight.
    pub commit_depth: u64,
    /// How long a group waits for company: `None` adapts.
    pub group_wait_ns: Option<u64>,
    /// Relaxed writes are durable within this time.
    pub relaxed_window_ns: u64,
    /// The share of the data segments that live data may fill: the one knob of space against write amplification.
    pub usable_percent: u64,
    /// Live data beyond this share of the present size makes a device grow that can; below, garbage collection has to find the room. The
    /// smaller, the more space and the less garbage collection.
    pub grow_percent: u64,
    /// Bound of what entries of the index take in memory; 0: all of them are in memory. What has changed since the last checkpoint is in memory in any case.
    pub index_bytes: u64,
    /// An opening loads an index whose runs have up to so many bytes before it is answered, and a larger one behind that.
    pub load_first_bytes: u64,
    /// Whether an idle engine records the durable position of its last group.
    pub durable_mark: bool,
    /// The mutant that is on.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: 0,
            checkpoint_bytes: 0,
            cache_bytes: None,
            write_buffer_bytes: 0,
            frame_bytes: 1 << 20,
            inline_bytes: 192,
            large_value_bytes: 128 << 10,
            max_value_bytes: 16 << 20,
            commit: CommitMode::Auto,
            commit_depth: 4,
            group_wait_ns: None,
            relaxed_window_ns: 50_000_000,
            usable_percent: 75,
            grow_percent: 65,
            index_bytes: 0,
            load_first_bytes: 4 << 20,
            durable_mark: true,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// Where entries may leave memory, the lists of those that lie in each segment of the log take so much of it.
const RESIDENTS_SHARE: u64 = 16;

impl Options {
    /// How many entries the lists of those that lie in each segment of the log may have.
    pub(crate) fn residents_max(&self) -> usize {
        match self.index_bytes {
            0 => usize::MAX,
            bytes => crate::format::to_usize(bytes / RESIDENTS_SHARE) / size_of::<u32>(),
        }
    }

    /// Reads `name=value` lines.
    ///
    /// # Errors
    /// A sentence that names the option.
    pub fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line
                .split_once('=')
                .ok_or(format!("option `{line}` is not of the form name=value"))?;
            options.set(name.trim(), value.trim())?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = |min: u64, max: u64| match value.parse::<u64>() {
            Ok(n) if (min..=max).contains(&n) => Ok(n),
            _ => Err(format!(
                "option `{name}`: `{value}` is not a number within {min}..={max}"
            )),
        };
        match name {
            "segment_bytes" => {
                self.segment_bytes = number(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)?;
                if !self.segment_bytes.is_power_of_two() {
                    return Err(format!(
                        "option `segment_bytes`: {value} is not a power of two"
                    ));
                }
            }
            "checkpoint_bytes" => self.checkpoint_bytes = number(4 << 10, 1 << 40)?,
            "cache_bytes" => self.cache_bytes = Some(number(0, 1 << 40)?),
            "write_buffer_bytes" => self.write_buffer_bytes = number(4 << 10, 1 << 40)?,
            "frame_bytes" => self.frame_bytes = number(4 << 10, 64 << 20)?,
            "inline_bytes" => self.inline_bytes = number(0, INLINE_BYTES_MAX as u64)?,
            "large_value_bytes" => self.large_value_bytes = number(1024, 16 << 20)?,
            "max_value_bytes" => self.max_value_bytes = number(1, 64 << 20)?,
            "commit_depth" => self.commit_depth = number(1, 64)?,
            "relaxed_window_ns" => self.relaxed_window_ns = number(0, 3_600_000_000_000)?,
            "grow_percent" => self.grow_percent = number(5, 90)?,
            "index_bytes" => self.index_bytes = number(0, 1 << 40)?,
            "load_first_bytes" => self.load_first_bytes = number(0, 1 << 40)?,
            "usable_percent" => self.usable_percent = number(10, 90)?,
            "group_wait" if value == "auto" => self.group_wait_ns = None,
            "group_wait" => self.group_wait_ns = Some(number(0, 1_000_000_000)?),
            "commit" => {
                self.commit = match value {
                    "auto" => CommitMode::Auto,
                    "flush" => CommitMode::Flush,
                    "write_through" => CommitMode::WriteThrough,
                    _ => {
                        return Err(format!(
                            "option `commit`: `{value}` is none of auto, flush, write_through"
                        ));
                    }
                }
            }
            "durable_mark" => {
                self.durable_mark = match value {
                    "on" => true,
                    "off" => false,
                    _ => {
                        return Err(format!(
                            "option `durable_mark`: `{value}` is neither on nor off"
                        ));
                    }
                }
            }
            #[cfg(feature = "mutants")]
            "mutant" => {
                let known = crate::Mutant::named(value);
                self.mutant = Some(known.ok_or(format!("there is no mutant `{value}`"))?);
            }
            _ => {
                let known: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
                return Err(format!(
                    "unknown option `{name}`; there are {}",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }
}

/// Everything an opening needs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The device's word about itself.
    pub device: DeviceInfo,
    /// What the engine may use; 0 if nobody says.
    pub memory_bytes_max: u64,
    /// The identity that a new database gets.
    pub db_id: [u8; 16],
    /// Options as `name=value` lines; parsed at opening, so that a wrong one is a reply.
    pub options: String,
}

/// The settings of one process run: options with everything derived, checked against the device.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) device: DeviceInfo,
    pub(crate) db_id: [u8; 16],
    pub(crate) options: Options,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Result<Settings, Error> {
        let mut options = Options::parse(&config.options).map_err(Error::Invalid)?;
        #[cfg(feature = "mutants")]
        crate::mutant::switch_on(options.mutant);
        let device = config.device.clone();
        let sector = device.sector_bytes;
        if !sector.is_power_of_two() || !(512..=65_536).contains(&sector) {
            return Err(Error::Invalid(format!(
                "a sector of {sector} bytes is not supported"
            )));
        }
        let block = device.physical_block_bytes;
        if !block.is_power_of_two() || !(512..=32_768).contains(&block) {
            return Err(Error::Invalid(format!(
                "a physical block of {block} bytes is not supported"
            )));
        }
        if options.commit == CommitMode::WriteThrough
            && device.volatile_cache
            && !device.write_through
        {
            return Err(Error::Invalid(
                "option `commit`: the device has no write-through".into(),
            ));
        }
        let memory = if config.memory_bytes_max == 0 {
            128 << 20
        } else {
            config.memory_bytes_max
        };
        if options.cache_bytes.is_none() {
            options.cache_bytes = Some((memory / 8).clamp(256 << 10, 32 << 20));
        }
        if options.write_buffer_bytes == 0 {
            options.write_buffer_bytes = (memory / 16).clamp(256 << 10, 8 << 20);
        }
        let frame_min = FRAME_BLOCKS_MIN * u64::from(block.max(sector));
        options.frame_bytes = options.frame_bytes.max(frame_min);
        let affordable = (device.capacity_bytes / 32).max(16 << 10);
        options.write_buffer_bytes = options.write_buffer_bytes.min(affordable);
        if options.checkpoint_bytes == 0 {
            options.checkpoint_bytes = (device.capacity_bytes / 64).clamp(32 << 10, 64 << 20);
        }
        if options.segment_bytes == 0 {
            let room = device.capacity_bytes.saturating_sub(HEADER_AREA_BYTES);
            let power = 1_u64 << (room / 32).max(1).ilog2();
            let least = SEGMENT_BYTES_MIN.max(4 * u64::from(block.max(sector)));
            let mut wanted = power.clamp(64 << 10, 8 << 20).max(least);
            while wanted > least && room / wanted < 24 {
                wanted /= 2;
            }
            options.segment_bytes = wanted;
        }
        if options.segment_bytes < 4 * u64::from(block.max(sector)) {
            return Err(Error::Invalid(
                "option `segment_bytes`: a segment has to hold at least four blocks".into(),
            ));
        }
        Ok(Settings {
            device,
            db_id: config.db_id,
            options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a misspelt option is never silently ignored. Method: each kind of mistake, and the message must name it.
    #[test]
    fn a_wrong_option_is_named() {
        for (text, part) in [
            ("segment_byte=65536", "segment_byte"),
            ("segment_bytes=65537", "power of two"),
            ("segment_bytes=8192", "16384..="),
            ("commit=never", "commit"),
            ("group_wait=soon", "group_wait"),
            ("usable_percent=99", "usable_percent"),
            ("nonsense", "name=value"),
        ] {
            let message = Options::parse(text).expect_err(text);
            assert!(message.contains(part), "{message}");
        }
    }

    /// Goal: options arrive. Method: parse several lines, look at the fields.
    #[test]
    fn options_are_read_line_by_line() {
        let options = Options::parse(
            "segment_bytes=65536\ngroup_wait=100\n\ncommit=flush\ndurable_mark=off\n",
        )
        .unwrap();
        assert_eq!(options.segment_bytes, 65_536);
        assert_eq!(options.group_wait_ns, Some(100));
        assert_eq!(options.commit, CommitMode::Flush);
        assert!(!options.durable_mark);
    }
}

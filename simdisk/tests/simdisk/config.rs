//! The scenario's tables: what is left out has its default, and what cannot be is refused by the name of its field.

use crate::common::config;
use kvsim_simdisk::{Device, DeviceConfig, FaultConfig, FaultKind};

fn device_error(change: impl FnOnce(&mut DeviceConfig)) -> String {
    let mut device = config();
    change(&mut device);
    device.validate().unwrap_err().to_string()
}

fn fault_error(change: impl FnOnce(&mut FaultConfig)) -> String {
    let mut faults = FaultConfig::default();
    change(&mut faults);
    let told = faults.validate(&config()).unwrap_err();
    assert_eq!(Device::new(&config(), &faults, 1).unwrap_err(), told);
    told.to_string()
}

/// Goal: defaults are valid, and survive being written out in full. Method: TOML and back.
#[test]
fn the_defaults_are_valid_and_survive_a_file() {
    let (device, faults) = (DeviceConfig::default(), FaultConfig::default());
    device.validate().unwrap();
    faults.validate(&device).unwrap();
    let text = toml::to_string(&device).unwrap();
    assert_eq!(toml::from_str::<DeviceConfig>(&text).unwrap(), device);
    let text = toml::to_string(&faults).unwrap();
    assert_eq!(toml::from_str::<FaultConfig>(&text).unwrap(), faults);
    assert_eq!(toml::from_str::<DeviceConfig>("").unwrap(), device);
    assert_eq!(toml::from_str::<FaultConfig>("").unwrap(), faults);
}

/// Goal: the honest device asks for loss, reordering and tears and nothing else.
#[test]
fn the_default_device_is_honest() {
    let asked = FaultConfig::default().asked();
    assert_eq!(
        asked,
        [FaultKind::Loss, FaultKind::Reorder, FaultKind::Torn]
    );
}

/// Goal: a scenario's own words are read as meant. Method: one of each kind of field.
#[test]
fn a_table_is_read_as_written() {
    let faults: FaultConfig = toml::from_str(
        "torn = 1\nflush_error = 0.25\nbias.subset = 9\n\
         [[script]]\nop = 17\nkind = \"flush_error\"\npersistent = true\n\
         [[script]]\nop = 20\nkind = \"bit_rot\"\nat_bytes = 4097\nbit = 7\n",
    )
    .unwrap();
    assert_eq!(
        (faults.torn, faults.flush_error, faults.bias.subset),
        (1.0, 0.25, 9)
    );
    assert_eq!(
        (faults.script[0].kind, faults.script[0].persistent),
        (FaultKind::FlushError, Some(true))
    );
    assert_eq!(
        (faults.script[1].at_bytes, faults.script[1].bit),
        (Some(4097), Some(7))
    );
    for unknown in [
        "tron = 1",
        "bias.al = 1",
        "[[script]]\nop = 1\nkind = \"bit_rott\"",
    ] {
        assert!(toml::from_str::<FaultConfig>(unknown).is_err(), "{unknown}");
    }
}

/// Goal: each wrong field of `[device]` is named by its path. Method: one wrong value each.
#[test]
fn a_wrong_device_field_is_named() {
    let starts =
        |error: String, field: &str| assert!(error.starts_with(&format!("`{field}`")), "{error}");
    starts(
        device_error(|d| d.sector_bytes = 513),
        "device.sector_bytes",
    );
    starts(
        device_error(|d| d.physical_block_bytes = 256),
        "device.physical_block_bytes",
    );
    starts(
        device_error(|d| d.capacity_bytes = 0),
        "device.capacity_bytes",
    );
    starts(
        device_error(|d| d.capacity_bytes += 512),
        "device.capacity_bytes",
    );
    starts(
        device_error(|d| d.max_capacity_bytes = 4096),
        "device.max_capacity_bytes",
    );
    starts(
        device_error(|d| d.atomic_write_bytes = 100),
        "device.atomic_write_bytes",
    );
    starts(
        device_error(|d| d.atomic_boundary_bytes = 100),
        "device.atomic_boundary_bytes",
    );
    starts(device_error(|d| d.queue_depth = 0), "device.queue_depth");
    starts(
        device_error(|d| d.timing.flush.p90_ns = 1),
        "device.timing.flush",
    );
    starts(
        device_error(|d| d.timing.stall = 1.5),
        "device.timing.stall",
    );
    starts(
        device_error(|d| d.timing.stall_ns = u64::MAX),
        "device.timing.stall_ns",
    );
}

/// Goal: each wrong field of `[faults]`, and each combination that can never happen, is named. Method: the same.
#[test]
fn a_wrong_fault_field_is_named() {
    let starts =
        |error: String, field: &str| assert!(error.starts_with(&format!("`{field}`")), "{error}");
    starts(fault_error(|f| f.torn = -0.1), "faults.torn");
    starts(
        fault_error(|f| f.stale_read = f64::NAN),
        "faults.stale_read",
    );
    starts(
        fault_error(|f| {
            f.torn = 0.0;
            f.garbage = 0.5;
        }),
        "faults.garbage",
    );
    starts(
        fault_error(|f| {
            f.bias.none = 0;
            f.bias.all = 0;
            f.bias.all_but_one = 0;
            f.bias.one = 0;
            f.bias.prefix = 0;
            f.bias.subset = 0;
        }),
        "faults.bias",
    );
    let script = |text: &str| toml::from_str::<FaultConfig>(text).unwrap();
    let wrong = [
        ("op = 1\nkind = \"torn\"", "faults.script[0].kind"),
        (
            "op = 1\nkind = \"bit_rot\"\nbit = 8",
            "faults.script[0].bit",
        ),
        (
            "op = 1\nkind = \"bit_rot\"\nat_bytes = 99999999",
            "faults.script[0].at_bytes",
        ),
        (
            "op = 1\nkind = \"misdirected_write\"\nat_bytes = 100",
            "faults.script[0].at_bytes",
        ),
    ];
    for (entry, field) in wrong {
        let faults = script(&format!("[[script]]\n{entry}"));
        starts(faults.validate(&config()).unwrap_err().to_string(), field);
    }
    let protected = DeviceConfig {
        cache: kvsim_simdisk::Cache::PowerLossProtected,
        ..config()
    };
    let lying = FaultConfig {
        flush_lie: 0.1,
        ..FaultConfig::default()
    };
    starts(
        lying.validate(&protected).unwrap_err().to_string(),
        "faults.flush_lie",
    );
}

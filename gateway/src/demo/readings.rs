//! Sensor readings made from a seed: as many as one likes, as load.
//!
//! Reading `n` is a function of the seed and `n` alone, so nothing is kept. [`DEVICES`] devices read once a minute:
//! reading `n` is by device `n mod DEVICES` at minute `n div DEVICES`, which makes keys unique and lets rows arrive as
//! they do in life, in order of time and all over the keys. Tenants own unequal shares of the devices.

use super::tenant_id;
use keyspan_catalog::{TenantId, Value};
use std::{f64::consts::TAU, sync::LazyLock};

/// The columns of a reading, in the order of its values.
pub(super) const COLUMNS: [&str; 6] = ["device_type", "device_id", "at", "temperature", "humidity", "system_log"];

/// Devices of all tenants.
const DEVICES: u64 = 400;
/// Who owns them: half of them the first, and so on.
static TENANTS: LazyLock<[TenantId; 4]> =
    LazyLock::new(|| ["vx", "wn", "ha", "f9"].map(|id| tenant_id(id).expect("it is one of the airlines")));
const KINDS: [&str; 3] = ["gate", "phone", "runway"];
/// 2013-01-01 00:00 UTC, when the flights begin too.
const START_MICROS: i64 = 1_356_998_400_000_000;
const MINUTE_MICROS: i64 = 60_000_000;
const MINUTES_OF_A_DAY: u64 = 1_440;
const LOGS: [&str; 4] = ["restarted", "clock adjusted by 2 s", "battery low", "lost its network for 40 s"];

/// A reading and whose it is.
pub(super) fn reading(seed: u64, number: u64) -> (&'static TenantId, [Value; COLUMNS.len()]) {
    let (device, minute) = (number % DEVICES, number / DEVICES);
    let owner = match device * 8 / DEVICES {
        0..4 => 0,
        4..6 => 1,
        6 => 2,
        _ => 3,
    };
    let kind = KINDS[(device % KINDS.len() as u64) as usize];
    let mut random = Random::new(seed, number);
    let of_device = Random::new(seed ^ u64::MAX, device).unit();
    let of_day = (TAU * (minute % MINUTES_OF_A_DAY) as f64 / MINUTES_OF_A_DAY as f64).sin();
    let temperature = 12.0 + 10.0 * of_device + 6.0 * of_day + random.unit();
    let humidity = 0.5 - 0.2 * of_day + 0.1 * random.unit();
    let values = [
        Value::Text(kind.to_owned()),
        Value::Text(format!("{kind}-{device:03}")),
        Value::Timestamp(START_MICROS.saturating_add(MINUTE_MICROS.saturating_mul(minute as i64))),
        Value::Float(rounded(temperature)),
        if random.one_in(50) { Value::Null } else { Value::Float(rounded(humidity)) },
        if random.one_in(20) { Value::Text(LOGS[(random.next() % 4) as usize].to_owned()) } else { Value::Null },
    ];
    (&TENANTS[owner], values)
}

/// Hundredths are enough; and the last bits of a sine differ from machine to machine.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): the same numbers for ever,
/// which no library promises of its standard generator.
struct Random(u64);

impl Random {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

    fn new(seed: u64, number: u64) -> Self {
        let mut outer = Self(seed);
        Self(outer.next() ^ number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::GAMMA);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_seed_gives_the_same_readings_for_ever() {
        let rows: Vec<_> = [0, 399, 400, 1_000_003].map(|number| format!("{:?}", reading(1, number))).to_vec();
        expect![[r#"
            ("vx", [Text("gate"), Text("gate-000"), Timestamp(1356998400000000), Float(18.49), Float(0.59), Null])
            ("f9", [Text("gate"), Text("gate-399"), Timestamp(1356998400000000), Float(13.89), Float(0.53), Null])
            ("vx", [Text("gate"), Text("gate-000"), Timestamp(1356998460000000), Float(18.6), Float(0.54), Null])
            ("vx", [Text("gate"), Text("gate-003"), Timestamp(1357148400000000), Float(13.51), Float(0.78), Null])"#]]
        .assert_eq(&rows.join("\n"));
        assert_ne!(reading(1, 0), reading(2, 0));
    }

    #[test]
    fn keys_are_unique_and_tenants_unequal() {
        let mut keys = BTreeSet::new();
        let mut rows = BTreeMap::new();
        for number in 0..4_000 {
            let (tenant, [kind, device, at, ..]) = reading(7, number);
            assert!(keys.insert(format!("{tenant} {kind:?} {device:?} {at:?}")));
            *rows.entry(tenant.as_str()).or_insert(0) += 1;
        }
        assert_eq!(rows, BTreeMap::from([("vx", 2_000), ("wn", 1_000), ("ha", 500), ("f9", 500)]));
    }
}

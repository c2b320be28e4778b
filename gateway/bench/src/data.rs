//! The rows of the bench: what devices of some tenants read, each row a function of the seed and its number.
//!
//! No rows are kept in memory: [`Data`] computes the expected content of the table again and again. Row `n` is the
//! reading of device `n mod devices` at minute `n div devices`, so that rows arrive as those of real devices do: in
//! order of time, scattered over the keys. Updates and deletions are functions of the row number, too:
//! [`Data::updated`] and [`Data::deleted`] say how many there were.

use anyhow::Result;
use keyspan_catalog::{TenantId, Value};

/// The statement with which the operator makes the table.
pub(super) const SCHEMA: &str = "
    CREATE TABLE metrics (
        device text, at timestamptz,
        temperature double precision, humidity double precision, pressure double precision, voltage real,
        signal int, counter bigint, status smallint, healthy boolean, firmware text, note text,
        PRIMARY KEY (device, at),
        FAMILY m (temperature, humidity, pressure, voltage, signal, counter, status, healthy, firmware, note)
    ) WITH (m.max_versions = 1)";
/// The name of the table.
pub(super) const TABLE: &str = "metrics";
/// The columns of the table, in the order of [`Reading::values`].
pub(super) const COLUMNS: [&str; 12] = [
    "device",
    "at",
    "temperature",
    "humidity",
    "pressure",
    "voltage",
    "signal",
    "counter",
    "status",
    "healthy",
    "firmware",
    "note",
];

/// Tenants; each owns the same number of devices.
pub(super) const TENANTS: u64 = 8;
/// Devices at most: with fewer than [`ROWS_OF_DEVICE_MIN`] rows for each there are fewer.
const DEVICES_MAX: u64 = 10_000;
/// Rows of a device, at least.
const ROWS_OF_DEVICE_MIN: u64 = 10;
/// One in this many devices can be deleted.
const DELETED_ONE_IN: u64 = 10;
/// 2026-01-01 00:00 UTC.
const START_MICROS: i64 = 1_767_225_600_000_000;
const MINUTE_MICROS: i64 = 60_000_000;
const FIRMWARE: [&str; 6] = ["2.0.1", "2.0.4", "2.1.0", "2.1.3", "3.0.0-beta.2", "3.0.0"];
const NOTES: [&str; 4] = ["restarted", "clock adjusted by 2 s", "battery low", "lost its network for 40 s"];
/// All rows, in the unit of [`Data::updated`]: thousandths.
pub(super) const ALL: u64 = 1_000;

/// The expected content of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    seed: u64,
    rows: u64,
    devices: u64,
    /// How many thousandths of the rows were updated: those whose [lot](Data::lot) is less.
    pub(super) updated: u64,
    /// How many devices are deleted.
    pub(super) deleted: u64,
}

/// A row.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) device: u64,
    pub(super) at: i64,
    pub(super) temperature: f64,
    pub(super) humidity: f64,
    pub(super) pressure: f64,
    pub(super) voltage: f32,
    pub(super) signal: i32,
    pub(super) counter: i64,
    pub(super) status: i16,
    pub(super) healthy: bool,
    pub(super) firmware: &'static str,
    pub(super) note: Option<&'static str>,
}

/// The aggregates of the bench's queries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) rows: u64,
    pub(super) signal: i64,
    /// Exact: temperatures are multiples of a power of two.
    pub(super) temperature: f64,
}

impl Data {
    pub(super) fn new(seed: u64, rows: u64) -> Self {
        let devices = (rows / ROWS_OF_DEVICE_MIN).clamp(DELETED_ONE_IN, DEVICES_MAX);
        Self { seed, rows, devices, updated: 0, deleted: 0 }
    }

    /// The table before anything was changed.
    pub(super) fn before(&self) -> Self {
        Self { updated: 0, deleted: 0, ..*self }
    }

    /// The number of rows, deleted ones included.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// How many devices can be deleted.
    pub(super) fn deletable(&self) -> u64 {
        self.devices / DELETED_ONE_IN
    }

    /// The `at`-th device to delete.
    pub(super) fn to_delete(at: u64) -> u64 {
        at * DELETED_ONE_IN + DELETED_ONE_IN / 2
    }

    fn is_deleted(&self, device: u64) -> bool {
        device % DELETED_ONE_IN == DELETED_ONE_IN / 2 && device / DELETED_ONE_IN < self.deleted
    }

    /// The tenant that owns a device.
    pub(super) fn tenant_of(&self, device: u64) -> u64 {
        device * TENANTS / self.devices
    }

    /// Row `number` with its updates; `None` if it was deleted.
    pub(super) fn row(&self, number: u64) -> Option<Reading> {
        let (device, minute) = (number % self.devices, number / self.devices);
        (!self.is_deleted(device)).then(|| self.reading(number, device, minute))
    }

    /// A random number below [`ALL`] that decides when the row is updated; independent of its device and time.
    pub(super) fn lot(&self, number: u64) -> u64 {
        Random::new(self.seed ^ 0x5eed, number).below(ALL)
    }

    /// All rows, by tenant, device and time: the order of their keys.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Reading> + use<> {
        let data = *self;
        let of_device = move |device| (device..data.rows).step_by(data.devices as usize);
        (0..data.devices).flat_map(of_device).filter_map(move |number| data.row(number))
    }

    /// The expected aggregates over the rows that satisfy `predicate`.
    pub(super) fn totals(&self, predicate: impl Fn(&Reading) -> bool) -> Totals {
        let rows = (0..self.rows).filter_map(|number| self.row(number)).filter(predicate);
        rows.fold(Totals::default(), |totals, row| Totals {
            rows: totals.rows + 1,
            signal: totals.signal + i64::from(row.signal),
            temperature: totals.temperature + row.temperature,
        })
    }

    fn reading(&self, number: u64, device: u64, minute: u64) -> Reading {
        let mut random = Random::new(self.seed, number);
        let temperature = 12.0 + (device % 64) as f64 / 4.0 + random.below(512) as f64 / 64.0;
        let signal = -40 - random.below(60) as i32;
        let is_updated = self.lot(number) < self.updated;
        Reading {
            device,
            at: START_MICROS.saturating_add(MINUTE_MICROS.saturating_mul(minute as i64)),
            temperature: if is_updated { temperature + 0.5 } else { temperature },
            humidity: (128 + random.below(2_048)) as f64 / 4_096.0,
            // All bits of the mantissa are random, so that no codec compresses them.
            pressure: 980.0 + 50.0 * random.unit(),
            voltage: 3.0 + random.below(1_200) as f32 / 1_000.0,
            signal: if is_updated { signal - 100 } else { signal },
            counter: (minute * 37 + random.below(37)) as i64,
            status: random.below(100) as i16,
            healthy: random.below(50) > 0,
            firmware: FIRMWARE[(device % FIRMWARE.len() as u64) as usize],
            note: (random.below(20) == 0).then(|| NOTES[random.below(NOTES.len() as u64) as usize]),
        }
    }
}

impl Reading {
    /// The name of the device; names sort as the numbers do.
    pub(super) fn device_name(device: u64) -> String {
        format!("device-{device:05}")
    }

    /// The values of [`COLUMNS`].
    pub(super) fn values(&self) -> [Value; COLUMNS.len()] {
        let text = |text: &str| Value::Text(text.to_owned());
        [
            Value::Text(Self::device_name(self.device)),
            Value::Timestamp(self.at),
            Value::Float(self.temperature),
            Value::Float(self.humidity),
            Value::Float(self.pressure),
            Value::Float(self.voltage.into()),
            Value::Int(self.signal.into()),
            Value::Int(self.counter),
            Value::Int(self.status.into()),
            Value::Bool(self.healthy),
            text(self.firmware),
            self.note.map_or(Value::Null, text),
        ]
    }

    /// Bytes of its values and of the tenant's name; numbers and timestamps count with their full width.
    pub(super) fn bytes(&self) -> u64 {
        let texts = Self::device_name(self.device).len() + self.firmware.len() + self.note.map_or(0, str::len);
        let numbers = 5 * size_of::<i64>() + 2 * size_of::<i32>() + size_of::<i16>() + size_of::<bool>();
        (tenant_name(0).len() + texts + numbers) as u64
    }

    /// The values of the key.
    pub(super) fn key(&self) -> [Value; 2] {
        [Value::Text(Self::device_name(self.device)), Value::Timestamp(self.at)]
    }
}

/// The name of a tenant; names sort as the numbers do.
pub(super) fn tenant_name(tenant: u64) -> String {
    format!("tenant{tenant}")
}

/// The tenants.
///
/// # Errors
/// Never: the names are valid.
pub(super) fn tenants() -> Result<Vec<TenantId>> {
    (0..TENANTS).map(|tenant| Ok(TenantId::new(&tenant_name(tenant))?)).collect()
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), whose numbers never change.
pub(super) struct Random(u64);

impl Random {
    /// A generator of its own for each `number`.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut outer = Self(seed);
        Self(outer.next() ^ number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to `end`, exclusive.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from 0 up to 1, exclusive.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_each_of_them_once() {
        let data = Data { deleted: 2, ..Data::new(7, 1_234) };
        let keys: Vec<_> =
            data.in_order().map(|row| (data.tenant_of(row.device), Reading::device_name(row.device), row.at)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        let of_deleted = (0..data.rows()).filter(|number| data.row(*number).is_none()).count();
        assert_eq!((keys.len() + of_deleted, of_deleted), (1_234, 20));
        assert_eq!(keys.len() as u64, data.totals(|_| true).rows);
        assert_eq!([keys[0].0, keys[keys.len() - 1].0], [0, TENANTS - 1]);
    }

    #[test]
    fn updates_change_as_many_rows_as_they_say() {
        let (before, after) = (Data::new(7, 20_000), Data { updated: 100, ..Data::new(7, 20_000) });
        let lots = (0..20_000).filter(|number| before.lot(*number) < 100).count() as i64;
        assert!((1_800..2_200).contains(&lots), "{lots}");
        let (before, after) = (before.totals(|_| true), after.totals(|_| true));
        assert_eq!(before.signal - after.signal, 100 * lots);
        assert_eq!(after.temperature - before.temperature, lots as f64 / 2.0);
    }
}

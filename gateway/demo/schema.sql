-- The demo's shared tables, as the operator makes them in database `keyspan`. Each airline is a tenant: its two-letter
-- code in lower case. All names a tenant sees are those below; the operator sees a leading column `tenant` as well.

-- Key: tenant#origin#dest#scheduled#flight, so one route of one airline is one range of keys, in order of departure.
-- A schedule does not change; what is known of a delay does, so five versions of it are kept; an aircraft's facts are
-- replaced as a whole.
CREATE TABLE flights (
    origin text, dest text, scheduled timestamptz, flight int,
    sched_arr_time timestamptz, distance int,
    dep_time timestamptz, arr_time timestamptz, dep_delay int, arr_delay int, air_time int,
    tailnum text, year_built int, manufacturer text, model text, seats int, engines int,
    PRIMARY KEY (origin, dest, scheduled, flight),
    FAMILY schedule (sched_arr_time, distance),
    FAMILY delays (dep_time, arr_time, dep_delay, arr_delay, air_time),
    FAMILY aircraft (tailnum, year_built, manufacturer, model, seats, engines)
) WITH (schedule.max_versions = 1, delays.max_versions = 5, aircraft.max_versions = 1);

-- The airports that the airline flies from and to.
CREATE TABLE airports (
    faa text,
    name text, lat double precision, lon double precision, alt int, tzone text,
    PRIMARY KEY (faa),
    FAMILY place (name, lat, lon, alt, tzone)
) WITH (place.max_versions = 1);

-- The weather at the airport of departure, for each hour in which the airline had a flight. Join it on
-- `flights.origin = weather.origin AND date_trunc('hour', flights.scheduled) = weather.time_hour`.
CREATE TABLE weather (
    origin text, time_hour timestamptz,
    temp double precision, dewp double precision, humid double precision, precip double precision,
    pressure double precision, visib double precision,
    wind_dir int, wind_speed double precision, wind_gust double precision,
    PRIMARY KEY (origin, time_hour),
    FAMILY air (temp, dewp, humid, precip, pressure, visib),
    FAMILY wind (wind_dir, wind_speed, wind_gust)
) WITH (air.max_versions = 1, wind.max_versions = 3);

-- What sensors of some tenants read, made from a seed (`keyspan demo --readings N --seed S`): load to measure with. The newest
-- reading of a device comes first, so "the last ten" is a short range.
CREATE TABLE readings (
    device_type text, device_id text, at timestamptz,
    temperature double precision, humidity double precision, system_log text,
    PRIMARY KEY (device_type, device_id, at DESC),
    FAMILY m (temperature, humidity), FAMILY logs (system_log)
) WITH (m.max_versions = 5, logs.max_age = '30 days');

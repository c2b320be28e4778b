import java.sql.*;
import java.time.OffsetDateTime;
import java.util.*;
import org.postgresql.PGConnection;

/** pgjdbc against a server. Usage: java -cp postgresql.jar Drivers.java HOST PORT DATABASE USER PASSWORD; see drivers.py. */
class Drivers {
    static String name;

    static void same(String what, Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(name + ": " + what + ": expected " + expected + ", found " + found);
        }
        System.out.println("ok: " + name + ": " + what);
    }

    static List<Object> column(ResultSet rows, int at) throws SQLException {
        List<Object> values = new ArrayList<>();
        while (rows.next()) {
            values.add(rows.getObject(at));
        }
        return values;
    }

    public static void main(String[] args) throws Exception {
        String url = "jdbc:postgresql://" + args[0] + ":" + args[1] + "/" + args[2];
        OffsetDateTime at = OffsetDateTime.parse("2013-08-01T12:30:15.250Z");
        String key = "origin = 'TST' AND dest = 'JDBC'";
        // Binary from the first execution on, and text.
        for (String threshold : List.of("-1", "0")) {
            Properties properties = new Properties();
            properties.setProperty("user", args[3]);
            properties.setProperty("password", args[4]);
            properties.setProperty("prepareThreshold", threshold);
            try (Connection connection = DriverManager.getConnection(url, properties)) {
                DatabaseMetaData about = connection.getMetaData();
                name = "pgjdbc " + about.getDriverVersion() + (threshold.equals("0") ? ", text" : ", binary");
                try (Statement statement = connection.createStatement()) {
                    ResultSet row = statement.executeQuery("SELECT true, 7::smallint, -7, 7000000000, 0.1::float8, 12.50::numeric(8, 2), 'é', NULL::text,"
                        + " '\\x00ff'::bytea, timestamptz '2013-08-01 14:30:15.25+02', date '2013-08-01', uuid '5f0c8b39-6a0f-4c5b-9e1d-0f7c9a4a3d2e'");
                    row.next();
                    same("types", Arrays.asList(row.getBoolean(1), row.getShort(2), row.getInt(3), row.getLong(4), row.getDouble(5),
                            row.getBigDecimal(6).toString(), row.getString(7), row.getString(8), row.getBytes(9).length,
                            row.getObject(10, OffsetDateTime.class).toInstant(), row.getDate(11).toString(), row.getObject(12).toString()),
                        Arrays.asList(true, (short) 7, -7, 7_000_000_000L, 0.1, "12.50", "é", null, 2, at.toInstant(), "2013-08-01",
                            "5f0c8b39-6a0f-4c5b-9e1d-0f7c9a4a3d2e"));
                }
                connection.setAutoCommit(false);
                try (PreparedStatement insert = connection.prepareStatement(
                        "INSERT INTO flights (origin, dest, scheduled, flight, dep_delay) VALUES ('TST', 'JDBC', ?, ?, ?)")) {
                    for (int flight = 0; flight < 200; flight++) {
                        insert.setObject(1, at);
                        insert.setInt(2, flight);
                        insert.setNull(3, Types.DOUBLE);
                        insert.addBatch();
                    }
                    same("a batch", insert.executeBatch().length, 200);
                }
                connection.commit();
                try (PreparedStatement select = connection.prepareStatement("SELECT flight FROM flights WHERE " + key + " AND flight >= ? ORDER BY flight")) {
                    select.setFetchSize(7);
                    select.setInt(1, 100);
                    List<Object> expected = new ArrayList<>();
                    for (int flight = 100; flight < 200; flight++) {
                        expected.add(flight);
                    }
                    for (int time = 0; time < 7; time++) {
                        if (!column(select.executeQuery(), 1).equals(expected)) {
                            throw new AssertionError(name + ": a portal, by pieces, run " + time);
                        }
                    }
                    same("a portal, by pieces, seven times", 0, 0);
                }
                Savepoint savepoint = connection.setSavepoint();
                try (Statement statement = connection.createStatement()) {
                    statement.executeUpdate("INSERT INTO flights (origin, dest, scheduled, flight) VALUES ('TST', 'JDBC', '2013-08-01 12:30:15.25Z', 5)");
                    throw new AssertionError(name + ": a key was written twice");
                } catch (SQLException refused) {
                    same("SQLSTATE", refused.getSQLState(), "23505");
                }
                connection.rollback(savepoint);
                connection.commit();
                var copy = connection.unwrap(PGConnection.class).getCopyAPI();
                same("COPY in", copy.copyIn("COPY flights (origin, dest, scheduled, flight) FROM STDIN WITH (FORMAT csv)",
                    new java.io.StringReader("TST,JDBC,2013-08-01 12:30:15.25Z,900\n")), 1L);
                var out = new java.io.StringWriter();
                copy.copyOut("COPY (SELECT count(*) FROM flights WHERE " + key + ") TO STDOUT", out);
                same("COPY out", out.toString(), "201\n");

                List<Object> tables = column(about.getTables(null, "public", "%", new String[] {"TABLE"}), 3);
                same("DatabaseMetaData: tables", tables.containsAll(List.of("airports", "flights", "readings", "weather")), true);
                same("DatabaseMetaData: columns", column(about.getColumns(null, "public", "flights", "%"), 4).contains("dep_delay"), true);
                same("DatabaseMetaData: a primary key", new TreeSet<>(column(about.getPrimaryKeys(null, "public", "flights"), 4)),
                    new TreeSet<>(List.of("origin", "dest", "scheduled", "flight")));
                same("DatabaseMetaData: places in the key", new TreeSet<>(column(about.getPrimaryKeys(null, "public", "flights"), 5)),
                    new TreeSet<>(List.of(1, 2, 3, 4)));
                same("DatabaseMetaData: an index", column(about.getIndexInfo(null, "public", "flights", true, true), 9),
                    List.of("origin", "dest", "scheduled", "flight"));
                same("DatabaseMetaData: the best identifier", column(about.getBestRowIdentifier(null, "public", "airports", 0, true), 2), List.of("faa"));
                same("DatabaseMetaData: types", column(about.getTypeInfo(), 1).containsAll(List.of("bool", "int4", "timestamptz", "jsonb")), true);
                same("DatabaseMetaData: schemas", column(about.getSchemas(), 1), List.of("information_schema", "pg_catalog", "public"));
                same("DatabaseMetaData: catalogs", column(about.getCatalogs(), 1), List.of(args[2]));
                same("DatabaseMetaData: foreign keys", column(about.getImportedKeys(null, "public", "flights"), 4), List.of());
                same("DatabaseMetaData: key words", about.getSQLKeywords().contains("analyze"), true);
                try (Statement statement = connection.createStatement()) {
                    same("DELETE", statement.executeUpdate("DELETE FROM flights WHERE " + key), 201);
                }
                connection.commit();
            }
        }
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.time.*;
import java.util.*;

/**
 * Runs a JDBC driver for another process. A request is a line of standard input: a word, followed by texts in base64.
 * `execute` has a statement, and a type and a value per parameter; `cancel` has a statement, which is cancelled; `metadata` has
 * no texts. The response is one line `row` with the values per row, then `end`, or `error` with SQLSTATE and message. A value is
 * a letter for its type, followed by base64, or by the bits in hexadecimal for floating-point numbers.
 */
public class Jdbc {
    static final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    static Connection connection;

    public static void main(String[] arguments) throws Exception {
        connection = DriverManager.getConnection(arguments[0], arguments[1], arguments[2]);
        out.println("ready");
        out.flush();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String[] texts = Arrays.stream(words).skip(1).map(Jdbc::decoded).toArray(String[]::new);
            try {
                switch (words[0]) {
                    case "execute" -> execute(texts);
                    case "cancel" -> cancel(texts[0]);
                    default -> metadata();
                }
                out.println("end");
            } catch (SQLException e) {
                out.println("error " + encoded(e.getSQLState() + " " + e.getMessage() + " " + e.getCause()));
            } catch (RuntimeException e) {
                out.println("error " + encoded("null " + e));
            }
            out.flush();
        }
        connection.close();
    }

    static void execute(String[] texts) throws SQLException {
        if (texts.length == 1) {
            try (Statement statement = connection.createStatement()) {
                if (statement.execute(texts[0])) rows(statement.getResultSet());
            }
            return;
        }
        // Parameters in JDBC are `?` in the order of the text. In all cases, this is the order of their numbers.
        String sql = url().startsWith("jdbc:postgresql") ? texts[0].replaceAll("\\$\\d+", "?") : texts[0];
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 1; i < texts.length; i += 2) set(statement, (i + 1) / 2, texts[i], texts[i + 1]);
            if (statement.execute()) rows(statement.getResultSet());
        }
    }

    static String url() throws SQLException {
        return connection.getMetaData().getURL();
    }

    static void set(PreparedStatement statement, int at, String type, String text) throws SQLException {
        switch (type) {
            case "INTEGER" -> statement.setInt(at, Integer.parseInt(text));
            case "BIGINT" -> statement.setLong(at, Long.parseLong(text));
            case "DOUBLE" -> statement.setDouble(at, Double.parseDouble(text));
            case "BOOLEAN" -> statement.setBoolean(at, text.equals("True"));
            case "DECIMAL" -> statement.setBigDecimal(at, new BigDecimal(text));
            case "DATE" -> statement.setDate(at, java.sql.Date.valueOf(text));
            case "TIMESTAMP" -> statement.setTimestamp(at, Timestamp.valueOf(text));
            default -> statement.setString(at, text);
        }
    }

    static void rows(ResultSet rows) throws SQLException {
        try (rows) {
            ResultSetMetaData columns = rows.getMetaData();
            while (rows.next()) {
                StringBuilder line = new StringBuilder("row");
                for (int at = 1; at <= columns.getColumnCount(); at++) line.append(' ').append(value(rows, columns, at));
                out.println(line);
            }
        }
    }

    static String value(ResultSet rows, ResultSetMetaData columns, int at) throws SQLException {
        int type = columns.getColumnType(at);
        boolean isPostgres = url().startsWith("jdbc:postgresql");
        boolean zoned = type == Types.TIMESTAMP_WITH_TIMEZONE || columns.getColumnTypeName(at).equals("timestamptz");
        // The driver of Arrow does not return NULL for getObject with a class of java.time.
        if (type == Types.DATE && rows.getDate(at) == null || type == Types.TIME && rows.getTime(at) == null) return "N";
        Object value = switch (type) {
            // java.sql.Date uses the Julian calendar before 1582, so java.time is used.
            case Types.DATE -> rows.getObject(at, LocalDate.class);
            case Types.TIME -> rows.getObject(at, LocalTime.class);
            case Types.TIMESTAMP, Types.TIMESTAMP_WITH_TIMEZONE -> isPostgres && zoned
                ? rows.getObject(at, OffsetDateTime.class) : rows.getObject(at, LocalDateTime.class);
            case Types.FLOAT, Types.REAL -> rows.getFloat(at);
            default -> rows.getObject(at);
        };
        if (value == null || rows.wasNull()) return "N";
        if (value instanceof Float f) return "f" + String.format("%08x", Float.floatToRawIntBits(f));
        if (value instanceof Double d) return "d" + String.format("%016x", Double.doubleToRawLongBits(d));
        if (value instanceof byte[] bytes) return "x" + Base64.getEncoder().encodeToString(bytes);
        if (value instanceof BigDecimal d) return "v" + encoded(d.toPlainString());
        if (value instanceof OffsetDateTime t) return "v" + encoded(written(t.withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime()) + "+00:00");
        if (value instanceof LocalDateTime t) return "v" + encoded(written(t) + (zoned ? "+00:00" : ""));
        if (value instanceof LocalTime t) return "v" + encoded(written(t));
        if (value instanceof String s) return "s" + encoded(s);
        return "v" + encoded(value.toString());
    }

    static String written(LocalDateTime time) {
        return time.toLocalDate() + " " + written(time.toLocalTime());
    }

    static String written(LocalTime time) {
        String seconds = String.format("%02d:%02d:%02d", time.getHour(), time.getMinute(), time.getSecond());
        return time.getNano() == 0 ? seconds : seconds + String.format(".%06d", time.getNano() / 1000);
    }

    static void cancel(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    Thread.sleep(700);
                    statement.cancel();
                } catch (InterruptedException | SQLException e) {
                    System.err.println(e);
                }
            });
            canceller.start();
            if (statement.execute(sql)) rows(statement.getResultSet());
        }
    }

    /** Calls all methods of DatabaseMetaData: for all tables, or for `child` and `parent` in methods about keys. */
    static void metadata() throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        Method[] questions = DatabaseMetaData.class.getMethods();
        Arrays.sort(questions, Comparator.comparing(Method::getName).thenComparing(Method::getParameterCount));
        for (Method question : questions) {
            Class<?>[] types = question.getParameterTypes();
            String name = question.getName();
            if (name.matches("unwrap|isWrapperFor") || types.length > 0 && question.getReturnType() != ResultSet.class) continue;
            Object[] given = new Object[types.length];
            for (int at = 0; at < types.length; at++) {
                given[at] = types[at] == int.class ? (Object) 1 : types[at] == boolean.class ? (Object) false : null;
            }
            if (name.matches("get(PrimaryKeys|ImportedKeys|ExportedKeys|IndexInfo|BestRowIdentifier|VersionColumns|ColumnPrivileges)")) {
                given[2] = name.equals("getExportedKeys") ? "parent" : "child";
            }
            if (name.equals("getCrossReference")) {
                given[2] = "parent";
                given[5] = "child";
            }
            String answer;
            try {
                Object value = question.invoke(metadata, given);
                if (!(value instanceof ResultSet)) continue;
                int count = 0;
                try (ResultSet rows = (ResultSet) value) {
                    for (; rows.next(); count++) rows.getString(1);
                }
                answer = count + " rows";
            } catch (InvocationTargetException | IllegalAccessException e) {
                answer = String.valueOf(e.getCause());
            }
            out.println("row s" + encoded(name) + " s" + encoded(answer));
        }
    }

    static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }
}

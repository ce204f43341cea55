import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.arrow.c.ArrowArray;
import org.apache.arrow.c.ArrowSchema;
import org.apache.arrow.c.Data;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.*;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.arrow.vector.util.Text;

/**
 * Runs Freestone's ADBC driver for another process, with Arrow's package for Java. No driver manager is needed: the program loads
 * the driver itself. Requests and responses are those of Jdbc.java. Arguments: the driver, and the URI of the database.
 */
public class Adbc {
    static final int VERSION_1_1 = 1001000;
    static final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    static final BufferAllocator allocator = new RootAllocator();

    /** Functions of the driver: their places in the table of ADBC 1.1. */
    enum Call {
        DATABASE_INIT(3), DATABASE_NEW(4), DATABASE_SET_OPTION(5), DATABASE_RELEASE(6), CONNECTION_INIT(12), CONNECTION_NEW(13),
        CONNECTION_RELEASE(16), BIND(18), EXECUTE_QUERY(20), STATEMENT_NEW(23), STATEMENT_RELEASE(25), SET_SQL_QUERY(27),
        ERROR_FROM_STREAM(31), STATEMENT_CANCEL(49);

        static final int PLACES = 58;
        final int place;

        Call(int place) {
            this.place = place;
        }
    }

    /** An error of the driver. */
    static class Failure extends Exception {
        final String state;

        Failure(String state, String message) {
            super(message);
            this.state = state;
        }
    }

    /** The structure of an error: message, vendor code, SQLSTATE, release, and what ADBC 1.1 has added. */
    static class DriverError extends Memory {
        DriverError() {
            super(48);
            clear();
            // The driver fills what was added in ADBC 1.1 if the vendor code says that it is there.
            setInt(8, Integer.MIN_VALUE);
        }

        Failure taken() {
            Pointer message = getPointer(0), release = getPointer(24);
            Failure failure = new Failure(stateOf(this), message == null ? "" : message.getString(0, "UTF-8"));
            if (release != null) Function.getFunction(release).invokeVoid(new Object[] {this});
            return failure;
        }

        static String stateOf(Pointer error) {
            return new String(error.getByteArray(12, 5), StandardCharsets.US_ASCII).replace("\0", "");
        }
    }

    /** The driver's structures: each handle is two pointers. */
    final Memory driver = zeroed(8L * Call.PLACES), database = zeroed(16), connection = zeroed(16);

    static Memory zeroed(long bytes) {
        Memory memory = new Memory(bytes);
        memory.clear();
        return memory;
    }

    Adbc(String path, String uri) throws Failure {
        DriverError error = new DriverError();
        Function init = NativeLibrary.getInstance(path).getFunction("AdbcDriverInit");
        if (isFailure(init, VERSION_1_1, driver, error)) throw error.taken();
        call(Call.DATABASE_NEW, database);
        call(Call.DATABASE_SET_OPTION, database, utf8("uri"), utf8(uri));
        call(Call.DATABASE_INIT, database);
        call(Call.CONNECTION_NEW, connection);
        call(Call.CONNECTION_INIT, connection, database);
    }

    void call(Call call, Object... arguments) throws Failure {
        DriverError error = new DriverError();
        Object[] all = Arrays.copyOf(arguments, arguments.length + 1);
        all[arguments.length] = error;
        if (isFailure(function(call), all)) throw error.taken();
    }

    /** Calls a function, whose status is one byte. */
    static boolean isFailure(Function function, Object... arguments) {
        return (function.invokeInt(arguments) & 0xff) != 0;
    }

    Function function(Call call) {
        return Function.getFunction(driver.getPointer(8L * call.place));
    }

    static Memory utf8(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        Memory memory = new Memory(bytes.length + 1L);
        memory.write(0, bytes, 0, bytes.length);
        memory.setByte(bytes.length, (byte) 0);
        return memory;
    }

    /** Runs a statement with types and values of its parameters, and prints its rows. */
    void execute(String[] texts, boolean cancels) throws Exception {
        Memory statement = zeroed(16), stream = zeroed(40);
        call(Call.STATEMENT_NEW, connection, statement);
        try {
            call(Call.SET_SQL_QUERY, statement, utf8(texts[0]));
            if (texts.length > 1) bind(statement, Arrays.copyOfRange(texts, 1, texts.length));
            if (cancels) new Thread(() -> cancel(statement)).start();
            call(Call.EXECUTE_QUERY, statement, stream, new Memory(8));
            try {
                read(stream);
            } finally {
                Pointer release = stream.getPointer(24);
                if (release != null) Function.getFunction(release).invokeVoid(new Object[] {stream});
            }
        } finally {
            call(Call.STATEMENT_RELEASE, statement);
        }
    }

    void cancel(Memory statement) {
        try {
            Thread.sleep(700);
            call(Call.STATEMENT_CANCEL, statement);
        } catch (InterruptedException | Failure e) {
            System.err.println(e);
        }
    }

    void bind(Memory statement, String[] texts) throws Exception {
        List<Field> fields = new ArrayList<>();
        List<FieldVector> columns = new ArrayList<>();
        for (int at = 0; at < texts.length; at += 2) {
            FieldVector column = parameter(String.valueOf(at / 2), texts[at], texts[at + 1]);
            column.setValueCount(1);
            fields.add(column.getField());
            columns.add(column);
        }
        try (VectorSchemaRoot row = new VectorSchemaRoot(new Schema(fields), columns, 1);
            ArrowArray array = ArrowArray.allocateNew(allocator);
            ArrowSchema schema = ArrowSchema.allocateNew(allocator)) {
            Data.exportVectorSchemaRoot(allocator, row, null, array, schema);
            call(Call.BIND, statement, new Pointer(array.memoryAddress()), new Pointer(schema.memoryAddress()));
        }
    }

    static FieldVector parameter(String name, String type, String text) {
        switch (type) {
            case "INTEGER", "BIGINT" -> {
                BigIntVector vector = new BigIntVector(name, allocator);
                vector.setSafe(0, Long.parseLong(text));
                return vector;
            }
            case "DOUBLE" -> {
                Float8Vector vector = new Float8Vector(name, allocator);
                vector.setSafe(0, Double.parseDouble(text));
                return vector;
            }
            case "BOOLEAN" -> {
                BitVector vector = new BitVector(name, allocator);
                vector.setSafe(0, text.equals("True") ? 1 : 0);
                return vector;
            }
            case "DECIMAL" -> {
                BigDecimal number = new BigDecimal(text);
                DecimalVector vector = new DecimalVector(name, allocator, 38, number.scale());
                vector.setSafe(0, number);
                return vector;
            }
            case "DATE" -> {
                DateDayVector vector = new DateDayVector(name, allocator);
                vector.setSafe(0, (int) LocalDate.parse(text).toEpochDay());
                return vector;
            }
            case "TIMESTAMP" -> {
                TimeStampMicroVector vector = new TimeStampMicroVector(name, allocator);
                Instant instant = LocalDateTime.parse(text.replace(' ', 'T')).toInstant(ZoneOffset.UTC);
                vector.setSafe(0, instant.getEpochSecond() * 1_000_000 + instant.getNano() / 1000);
                return vector;
            }
            default -> {
                VarCharVector vector = new VarCharVector(name, allocator);
                vector.setSafe(0, new Text(text));
                return vector;
            }
        }
    }

    /** Prints the rows of a stream: its functions give the schema, the next array, and the last error. */
    void read(Memory stream) throws Exception {
        try (ArrowSchema schema = ArrowSchema.allocateNew(allocator)) {
            next(stream, 0, new Pointer(schema.memoryAddress()));
            Schema columns = Data.importSchema(allocator, schema, null);
            while (true) {
                try (ArrowArray array = ArrowArray.allocateNew(allocator);
                    VectorSchemaRoot rows = VectorSchemaRoot.create(columns, allocator)) {
                    next(stream, 8, new Pointer(array.memoryAddress()));
                    if (array.snapshot().release == 0) return;
                    Data.importIntoVectorSchemaRoot(allocator, array, rows, null);
                    for (int at = 0; at < rows.getRowCount(); at++) {
                        StringBuilder line = new StringBuilder("row");
                        for (FieldVector column : rows.getFieldVectors()) line.append(' ').append(value(column, at));
                        out.println(line);
                    }
                }
            }
        }
    }

    void next(Memory stream, long offset, Pointer filled) throws Failure {
        if (Function.getFunction(stream.getPointer(offset)).invokeInt(new Object[] {stream, filled}) == 0) return;
        String message = (String) Function.getFunction(stream.getPointer(16)).invoke(String.class, new Object[] {stream});
        Pointer error = function(Call.ERROR_FROM_STREAM).invokePointer(new Object[] {stream, new Memory(1)});
        throw new Failure(error == null ? "" : DriverError.stateOf(error), message);
    }

    static String value(FieldVector column, int at) {
        if (column instanceof NullVector || column.isNull(at)) return "N";
        ArrowType type = column.getField().getType();
        if (column instanceof Float4Vector v) return "f" + String.format("%08x", Float.floatToRawIntBits(v.get(at)));
        if (column instanceof Float8Vector v) return "d" + String.format("%016x", Double.doubleToRawLongBits(v.get(at)));
        if (column instanceof VarCharVector v) return "s" + encoded(v.getObject(at).toString());
        if (column instanceof VarBinaryVector v) return "x" + Base64.getEncoder().encodeToString(v.get(at));
        if (column instanceof BitVector v) return "v" + encoded(v.get(at) == 1 ? "true" : "false");
        if (column instanceof UInt1Vector v) return "v" + encoded(String.valueOf(v.get(at) & 0xff));
        if (column instanceof UInt2Vector v) return "v" + encoded(String.valueOf((int) v.get(at)));
        if (column instanceof UInt4Vector v) return "v" + encoded(Integer.toUnsignedString(v.get(at)));
        if (column instanceof UInt8Vector v) return "v" + encoded(Long.toUnsignedString(v.get(at)));
        if (column instanceof DecimalVector v) return "v" + encoded(v.getObject(at).toPlainString());
        if (column instanceof DateDayVector v) return "v" + encoded(LocalDate.ofEpochDay(v.get(at)).toString());
        if (type instanceof ArrowType.Time t) return "v" + encoded(clock(since(t.getUnit(), number(column, at)).atOffset(ZoneOffset.UTC).toLocalTime()));
        if (type instanceof ArrowType.Timestamp t) {
            LocalDateTime time = since(t.getUnit(), number(column, at)).atOffset(ZoneOffset.UTC).toLocalDateTime();
            return "v" + encoded(time.toLocalDate() + " " + clock(time.toLocalTime()) + (t.getTimezone() == null ? "" : "+00:00"));
        }
        if (type instanceof ArrowType.Int) return "v" + encoded(String.valueOf(number(column, at)));
        throw new IllegalArgumentException("a value of type " + type + " has no form here");
    }

    static long number(FieldVector column, int at) {
        BaseFixedWidthVector fixed = (BaseFixedWidthVector) column;
        return switch (fixed.getTypeWidth()) {
            case 1 -> fixed.getDataBuffer().getByte(at);
            case 2 -> fixed.getDataBuffer().getShort(at * 2L);
            case 4 -> fixed.getDataBuffer().getInt(at * 4L);
            default -> fixed.getDataBuffer().getLong(at * 8L);
        };
    }

    static Instant since(org.apache.arrow.vector.types.TimeUnit unit, long number) {
        long units = switch (unit) {
            case SECOND -> 1L;
            case MILLISECOND -> 1_000L;
            case MICROSECOND -> 1_000_000L;
            case NANOSECOND -> 1_000_000_000L;
        };
        return Instant.ofEpochSecond(Math.floorDiv(number, units), Math.floorMod(number, units) * (1_000_000_000L / units));
    }

    /** A time of day, with six digits of a second if it has a fraction. */
    static String clock(LocalTime time) {
        String seconds = String.format("%02d:%02d:%02d", time.getHour(), time.getMinute(), time.getSecond());
        return time.getNano() == 0 ? seconds : seconds + String.format(".%06d", time.getNano() / 1000);
    }

    static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    void answer(String line) {
        String[] words = line.split(" ");
        String[] texts = Arrays.stream(words).skip(1).map(Adbc::decoded).toArray(String[]::new);
        try {
            execute(texts, words[0].equals("cancel"));
            out.println("end");
        } catch (Failure e) {
            out.println("error " + encoded(e.state + " " + e.getMessage()));
        } catch (Exception e) {
            out.println("error " + encoded("null " + e));
        }
        out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        Adbc client = new Adbc(arguments[0], arguments[1]);
        out.println("ready");
        out.flush();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) client.answer(line);
        client.call(Call.CONNECTION_RELEASE, client.connection);
        client.call(Call.DATABASE_RELEASE, client.database);
    }
}

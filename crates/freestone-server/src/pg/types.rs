//! The mapping of the engine's types to those of PostgreSQL.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freestone::NormalText;

use freestone_sql::tree;

/// A type of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    pub oid: u32,
    /// The name in `pg_type`.
    pub name: &'static str,
    /// The name in SQL.
    pub sql: &'static str,
    /// The bytes of a value, or -1 for variable length.
    pub width: i16,
    /// The OID of the array type with these elements.
    pub array: u32,
    pub category: char,
}

macro_rules! types {
    ($($constant:ident = $oid:literal, $name:literal, $sql:literal, $width:literal, $array:literal, $category:literal;)*) => {
        $(pub const $constant: Type = Type {
            oid: $oid, name: $name, sql: $sql, width: $width, array: $array, category: $category
        };)*
        /// All types with a constant.
        pub const TYPES: &[Type] = &[$($constant),*];
    };
}

types! {
    BOOL = 16, "bool", "boolean", 1, 1000, 'B';
    BYTEA = 17, "bytea", "bytea", -1, 1001, 'U';
    CHAR = 18, "char", "\"char\"", 1, 1002, 'Z';
    NAME = 19, "name", "name", 64, 1003, 'S';
    INT8 = 20, "int8", "bigint", 8, 1016, 'N';
    INT2 = 21, "int2", "smallint", 2, 1005, 'N';
    INT2VECTOR = 22, "int2vector", "int2vector", -1, 1006, 'A';
    INT4 = 23, "int4", "integer", 4, 1007, 'N';
    REGPROC = 24, "regproc", "regproc", 4, 1008, 'N';
    TEXT = 25, "text", "text", -1, 1009, 'S';
    OID = 26, "oid", "oid", 4, 1028, 'N';
    OIDVECTOR = 30, "oidvector", "oidvector", -1, 1013, 'A';
    JSON = 114, "json", "json", -1, 199, 'U';
    FLOAT4 = 700, "float4", "real", 4, 1021, 'N';
    FLOAT8 = 701, "float8", "double precision", 8, 1022, 'N';
    UNKNOWN = 705, "unknown", "unknown", -2, 0, 'X';
    BPCHAR = 1042, "bpchar", "character", -1, 1014, 'S';
    VARCHAR = 1043, "varchar", "character varying", -1, 1015, 'S';
    DATE = 1082, "date", "date", 4, 1182, 'D';
    TIME = 1083, "time", "time without time zone", 8, 1183, 'D';
    TIMESTAMP = 1114, "timestamp", "timestamp without time zone", 8, 1115, 'D';
    TIMESTAMPTZ = 1184, "timestamptz", "timestamp with time zone", 8, 1185, 'D';
    INTERVAL = 1186, "interval", "interval", 16, 1187, 'T';
    NUMERIC = 1700, "numeric", "numeric", -1, 1231, 'N';
    CIDR = 650, "cidr", "cidr", -1, 651, 'I';
    INET = 869, "inet", "inet", -1, 1041, 'I';
    TIMETZ = 1266, "timetz", "time with time zone", 12, 1270, 'D';
    BIT = 1560, "bit", "bit", -1, 1561, 'V';
    VARBIT = 1562, "varbit", "bit varying", -1, 1563, 'V';
    REGCLASS = 2205, "regclass", "regclass", 4, 2210, 'N';
    REGTYPE = 2206, "regtype", "regtype", 4, 2211, 'N';
    JSONB = 3802, "jsonb", "jsonb", -1, 3807, 'U';
    UUID = 2950, "uuid", "uuid", 16, 2951, 'U';
    VOID = 2278, "void", "void", 4, 0, 'P';
}

impl Type {
    /// The element type of an array type.
    pub fn by_array(oid: u32) -> Option<Type> {
        TYPES.iter().copied().find(|known| known.array == oid && oid != 0)
    }

    /// The OID of a type by a name that SQL or `pg_type` has for it, or of an array of it. Precision and length have no
    /// effect on it.
    pub fn by_sql(name: &str) -> Option<u32> {
        let lower = name.trim().to_ascii_lowercase();
        let (element, is_array) = match lower.strip_suffix("[]") {
            Some(element) => (element.trim_end(), true),
            None => (lower.as_str(), false),
        };
        let start = element.find('(');
        let end = element.rfind(')').filter(|end| start.is_some_and(|start| start < *end));
        let plain = match (start, end) {
            (Some(start), Some(end)) => format!("{} {}", element[..start].trim(), element[end + 1..].trim()),
            _ => element.to_owned(),
        };
        let plain = plain.trim().trim_start_matches("pg_catalog.");
        let plain = match plain {
            "int" => "int4",
            "float" | "double" => "float8",
            "string" => "text",
            "decimal" | "dec" => "numeric",
            "char" => "bpchar",
            other => other,
        };
        let known = TYPES.iter().find(|known| known.name == plain || known.sql == plain)?;
        Some(if is_array { known.array } else { known.oid })
    }

    pub fn by_oid(oid: u32) -> Option<Type> {
        TYPES.iter().copied().find(|known| known.oid == oid)
    }
}

/// The name under which a field of a result says which type its query names.
const TOLD: &str = "postgresql type";

/// The type of a column of a result or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnType {
    pub element: Type,
    pub is_array: bool,
    /// Precision and scale of a numeric; otherwise -1.
    pub modifier: i32,
}

impl ColumnType {
    pub fn of(data_type: &DataType) -> ColumnType {
        match data_type {
            DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                let of = ColumnType::of(field.data_type());
                // Clients know arrays of text by heart, and look up those of varchar.
                let element = if of.element == VARCHAR { TEXT } else { of.element };
                ColumnType { is_array: true, element, ..of }
            }
            DataType::Dictionary(_, values) => ColumnType::of(values),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => {
                let modifier = ((i32::from(*precision) << 16) | (i32::from(*scale) & 0x7ff)) + 4;
                ColumnType { modifier, ..ColumnType::plain(NUMERIC) }
            }
            other => ColumnType::plain(scalar(other)),
        }
    }

    /// The type of a column of a result: the one that its query names, where that has the same values.
    pub fn of_field(field: &Field) -> ColumnType {
        let plain = ColumnType::of(field.data_type());
        let told = field.metadata().get(TOLD).and_then(|told| ColumnType::read(told));
        let told = told.or_else(|| ColumnType::declared(field)).filter(|told| told.is_form_of(plain));
        let own = ColumnType::of_texts(field, plain);
        match (told, own) {
            // What is told of an operator is only that it gives a text.
            (Some(told), Some(own)) if told.element == TEXT && own.element == JSONB => own,
            _ => told.or(own).unwrap_or(plain),
        }
    }

    /// The type that was declared for the column of a table.
    fn declared(field: &Field) -> Option<ColumnType> {
        let declared = freestone_sql::parse_type(freestone::declared_type(field)?).ok()?;
        ColumnType::of_sql(&declared, &|_| false)
    }

    /// The type of a field whose texts are of a type of their own.
    fn of_texts(field: &Field, plain: ColumnType) -> Option<ColumnType> {
        let bits = |bits: u32| i32::try_from(bits).unwrap_or(-1);
        let (element, modifier) = match freestone::normal_of(field) {
            Some(NormalText::TimeTz(6)) => (TIMETZ, -1),
            Some(NormalText::TimeTz(digits)) => (TIMETZ, digits.into()),
            Some(NormalText::Inet) => (INET, -1),
            Some(NormalText::Cidr) => (CIDR, -1),
            Some(NormalText::Bit(count)) => (BIT, bits(count)),
            Some(NormalText::Jsonb) => (JSONB, -1),
            Some(NormalText::VarBit(count)) => (VARBIT, count.map_or(-1, bits)),
            None if freestone::is_json(field) => (JSON, -1),
            None => return None,
        };
        Some(ColumnType { element, modifier, ..plain })
    }

    /// The type with an OID.
    pub fn of_oid(oid: u32) -> Option<ColumnType> {
        let element = Type::by_oid(oid).filter(|known| *known != UNKNOWN).or_else(|| of_enum(oid));
        let array = Type::by_array(oid).map(|element| ColumnType { is_array: true, ..ColumnType::plain(element) });
        element.map(ColumnType::plain).or(array)
    }

    /// Notes the type that a query names for a column of its result.
    pub fn note(self, field: Field) -> Field {
        let ColumnType { element, is_array, modifier } = self;
        let mut metadata = field.metadata().clone();
        metadata.insert(TOLD.to_owned(), format!("{} {is_array} {modifier}", element.oid));
        field.with_metadata(metadata)
    }

    /// Whether a query names a type for a column of its result.
    pub fn is_noted(field: &Field) -> bool {
        field.metadata().contains_key(TOLD)
    }

    fn read(told: &str) -> Option<ColumnType> {
        let mut parts = told.split(' ');
        let oid = parts.next()?.parse().ok()?;
        let element = Type::by_oid(oid).or_else(|| of_enum(oid))?;
        Some(ColumnType { element, is_array: parts.next()?.parse().ok()?, modifier: parts.next()?.parse().ok()? })
    }

    /// Whether values of the engine's type are values of this one.
    pub fn is_form_of(self, plain: ColumnType) -> bool {
        let values = |element: Type| match element {
            JSON | JSONB | TEXT | BPCHAR | NAME | CHAR | TIMETZ | INET | CIDR | BIT | VARBIT | VOID => VARCHAR,
            other if other.category == ENUM => VARCHAR,
            OID | REGCLASS | REGTYPE | REGPROC => INT8,
            other => other,
        };
        // The engine counts with unsigned integers, which are NUMERIC without precision elsewhere.
        let is_count = plain == ColumnType::plain(NUMERIC);
        let is_shorter = !self.is_array
            && (self.element == INT4 && (plain == ColumnType::plain(INT8) || is_count)
                || self.element == INT8 && is_count);
        let is_vector = [INT2VECTOR, OIDVECTOR].contains(&self.element) && !self.is_array;
        is_shorter
            || is_vector && plain.is_array && plain.element == INT8
            || self.is_array == plain.is_array && values(self.element) == values(plain.element)
    }

    /// The type that a cast in SQL names; `None` where the engine's type says as much.
    ///
    /// `is_enum` says whether a name is that of a type of labels.
    pub fn of_sql(sql: &tree::Type, is_enum: &dyn Fn(&str) -> bool) -> Option<ColumnType> {
        let (name, modifiers) = match &sql.kind {
            tree::TypeKind::List(element) | tree::TypeKind::Array(element, _) => {
                return Some(ColumnType { is_array: true, ..ColumnType::of_sql(element, is_enum)? });
            }
            tree::TypeKind::Named { name, modifiers } => (name, modifiers),
            _ => return None,
        };
        let name = name.parts.last()?;
        let of_enum = || is_enum(&name.text).then(|| of_enum(enum_oid(&name.text))).flatten().map(ColumnType::plain);
        if name.quoted {
            let of_char = (name.text == "char").then(|| ColumnType::plain(CHAR));
            if let Some(own) = of_char.or_else(of_enum) {
                return Some(own);
            }
        }
        let modifier = modifiers.first().and_then(|modifier| modifier.parse::<i32>().ok());
        let length = modifier.filter(|length| (1..=LENGTH_MAX).contains(length)).map_or(-1, |length| length + 4);
        let digits = modifier.unwrap_or(-1);
        let (element, modifier) = match (name.text.as_str(), modifier) {
            ("json", _) => (JSON, -1),
            ("jsonb", _) => (JSONB, -1),
            ("text", _) => (TEXT, -1),
            ("varchar", _) => (VARCHAR, length),
            ("char" | "character", _) => (BPCHAR, length.max(5)),
            ("bpchar", _) => (BPCHAR, length),
            ("numeric" | "decimal" | "dec", None) => (NUMERIC, -1),
            ("time", _) => (TIME, digits),
            ("timetz", _) => (TIMETZ, digits),
            // The upper half says that all fields are there.
            ("interval", Some(digits)) => (INTERVAL, 0x7fff << 16 | digits.min(6)),
            ("bit", Some(count)) => (BIT, count),
            ("bit" | "varbit", _) => (VARBIT, digits),
            ("timestamp", _) => (TIMESTAMP, digits),
            ("timestamptz", _) => (TIMESTAMPTZ, digits),
            ("regclass", _) => (REGCLASS, -1),
            ("name", _) => (NAME, -1),
            ("oid", _) => (OID, -1),
            ("inet", _) => (INET, -1),
            ("cidr", _) => (CIDR, -1),
            _ => return of_enum(),
        };
        Some(ColumnType { element, is_array: false, modifier })
    }

    pub fn plain(element: Type) -> ColumnType {
        ColumnType { element, is_array: false, modifier: -1 }
    }

    pub fn oid(&self) -> u32 {
        if self.is_array { self.element.array } else { self.element.oid }
    }

    pub fn width(&self) -> i16 {
        if self.is_array { -1 } else { self.element.width }
    }
}

/// The longest `varchar(n)` and `char(n)`, as in PostgreSQL.
const LENGTH_MAX: i32 = 10_485_760;
/// The category of types of labels.
const ENUM: char = 'E';
/// The first OID of types of labels. Each is followed by that of its array.
const OID_ENUM_FIRST: u32 = 1_600_000_000;
const ENUMS_MAX: u32 = 100_000_000;

/// The OID of a type of labels, which is the same in every session.
pub fn enum_oid(name: &str) -> u32 {
    let hash = name.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    OID_ENUM_FIRST + 2 * (hash % ENUMS_MAX)
}

/// Columns of labels of a type with a name have that type. `known` gives the types, by name, with their labels.
pub fn with_enums(schema: SchemaRef, known: impl FnOnce() -> Vec<(String, Vec<String>)>) -> SchemaRef {
    if !schema.fields().iter().any(|field| freestone::labels_of(field).is_some()) {
        return schema;
    }
    let known = known();
    let named = |field: &Arc<Field>| {
        let labels = freestone::labels_of(field)?;
        let (name, _) = known.iter().find(|(_, known)| *known == labels)?;
        let of_type = ColumnType::of_oid(enum_oid(name)).filter(|_| !ColumnType::is_noted(field))?;
        Some(Arc::new(of_type.note(field.as_ref().clone())))
    };
    let fields = schema.fields().iter().map(|field| named(field).unwrap_or_else(|| field.clone()));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Whether a type of labels, or an array of one, could have this OID.
pub fn is_of_enum(oid: u32) -> bool {
    (OID_ENUM_FIRST..OID_ENUM_FIRST + 2 * ENUMS_MAX).contains(&oid)
}

/// The type of labels with an OID.
fn of_enum(oid: u32) -> Option<Type> {
    let is_enum = is_of_enum(oid) && oid.is_multiple_of(2);
    is_enum.then_some(Type { oid, name: "", sql: "", width: 4, array: oid + 1, category: ENUM })
}

fn scalar(data_type: &DataType) -> Type {
    match data_type {
        DataType::Boolean => BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => INT2,
        DataType::Int32 | DataType::UInt16 => INT4,
        DataType::Int64 | DataType::UInt32 => INT8,
        DataType::UInt64 => NUMERIC,
        DataType::Float16 | DataType::Float32 => FLOAT4,
        DataType::Float64 => FLOAT8,
        DataType::Date32 | DataType::Date64 => DATE,
        DataType::Time32(_) | DataType::Time64(_) => TIME,
        DataType::Timestamp(_, None) => TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => INTERVAL,
        DataType::FixedSizeBinary(16) => UUID,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => BYTEA,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => VARCHAR,
        _ => TEXT,
    }
}

/// The engine's type for the elements of arrays of a type.
pub fn item_type(element: Type) -> Option<DataType> {
    match element {
        // A text becomes one where it stands alone, and not in a list.
        UUID => Some(DataType::FixedSizeBinary(UUID_BYTES)),
        other => parameter_type(other.oid),
    }
}

/// The bytes of a UUID.
pub const UUID_BYTES: i32 = 16;

/// The engine's type for a parameter type that the client declares; `None` if the type is to be inferred from the
/// statement.
pub fn parameter_type(oid: u32) -> Option<DataType> {
    use arrow::datatypes::{IntervalUnit, TimeUnit};
    if let Some(element) = Type::by_array(oid) {
        let element = item_type(element)?;
        return Some(DataType::List(Arc::new(Field::new_list_field(element, true))));
    }
    Some(match Type::by_oid(oid)? {
        BOOL => DataType::Boolean,
        INT2 => DataType::Int16,
        INT4 => DataType::Int32,
        INT8 | OID | REGCLASS | REGTYPE | REGPROC => DataType::Int64,
        FLOAT4 => DataType::Float32,
        FLOAT8 => DataType::Float64,
        NUMERIC => DataType::Decimal128(38, 10),
        DATE => DataType::Date32,
        TIME => DataType::Time64(TimeUnit::Nanosecond),
        TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        BYTEA => DataType::BinaryView,
        TEXT | VARCHAR | BPCHAR | NAME | CHAR | JSON | JSONB | UUID => DataType::Utf8View,
        TIMETZ | INET | CIDR | BIT | VARBIT => DataType::Utf8View,
        _ => return None,
    })
}

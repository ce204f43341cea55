//! The words with a meaning in the grammar, and where each of them can be a name.
//!
//! The classes are those of PostgreSQL 17 (its manual, appendix C), except that `NATURAL` and `ONLY` are names here where no
//! join and no table follows. Words that only DuckDB or Freestone gives a meaning, such as `QUALIFY`, are unreserved: the
//! parser looks at what follows them. Words that the grammar does not use and that
//! PostgreSQL does not reserve are not in the table: they are names.

/// Where a keyword can be a name without quotes. Behind a point, and behind AS in a list of columns, each can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Everywhere.
    Unreserved,
    /// Of columns and tables; not of functions and types.
    ColumnName,
    /// Of functions and types; not of columns and tables.
    FunctionName,
    /// Nowhere.
    Reserved,
}

macro_rules! keywords {
    ($($word:ident $class:ident,)*) => {
        /// A word with a meaning in the grammar.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Keyword {
            $($word,)*
        }

        /// All of them, in alphabetical order.
        const KEYWORDS: &[(&str, Keyword, Class)] = &[$((stringify!($word), Keyword::$word, Class::$class),)*];
    };
}

keywords! {
    ABORT Unreserved,
    ABSOLUTE Unreserved,
    ACTION Unreserved,
    ADD Unreserved,
    ADVISE Unreserved,
    ALL Reserved,
    ALTER Unreserved,
    ALWAYS Unreserved,
    ANALYSE Reserved,
    ANALYZE Reserved,
    AND Reserved,
    ANTI Unreserved,
    ANY Reserved,
    ARRAY Reserved,
    AS Reserved,
    ASC Reserved,
    ASENSITIVE Unreserved,
    ASOF Unreserved,
    ASYMMETRIC Reserved,
    AT Unreserved,
    ATTACH Unreserved,
    AUTHORIZATION FunctionName,
    BACKUP Unreserved,
    BACKWARD Unreserved,
    BEGIN Unreserved,
    BETWEEN ColumnName,
    BIGINT ColumnName,
    BINARY FunctionName,
    BIT ColumnName,
    BOOLEAN ColumnName,
    BOTH Reserved,
    BUDGET Unreserved,
    BY Unreserved,
    CACHE Unreserved,
    CALIBRATE Unreserved,
    CALL Unreserved,
    CASCADE Unreserved,
    CASE Reserved,
    CAST Reserved,
    CHAIN Unreserved,
    CHAR ColumnName,
    CHARACTER ColumnName,
    CHARACTERISTICS Unreserved,
    CHECK Reserved,
    CHECKPOINT Unreserved,
    CLOSE Unreserved,
    CLUSTER Unreserved,
    COALESCE ColumnName,
    COLLATE Reserved,
    COLLATION FunctionName,
    COLUMN Reserved,
    COLUMNS Unreserved,
    COMMENT Unreserved,
    COMMIT Unreserved,
    COMMITTED Unreserved,
    CONCURRENTLY FunctionName,
    CONFLICT Unreserved,
    CONSTRAINT Reserved,
    CONTINUE Unreserved,
    COPIES Unreserved,
    COPY Unreserved,
    CREATE Reserved,
    CROSS FunctionName,
    CSV Unreserved,
    CUBE Unreserved,
    CURRENT Unreserved,
    CURRENT_CATALOG Reserved,
    CURRENT_DATE Reserved,
    CURRENT_ROLE Reserved,
    CURRENT_SCHEMA FunctionName,
    CURRENT_TIME Reserved,
    CURRENT_TIMESTAMP Reserved,
    CURRENT_USER Reserved,
    CURSOR Unreserved,
    CYCLE Unreserved,
    DATA Unreserved,
    DATABASE Unreserved,
    DATABASES Unreserved,
    DAY Unreserved,
    DEALLOCATE Unreserved,
    DEC ColumnName,
    DECIMAL ColumnName,
    DECLARE Unreserved,
    DEFAULT Reserved,
    DEFERRABLE Reserved,
    DEFERRED Unreserved,
    DELETE Unreserved,
    DELIMITER Unreserved,
    DESC Reserved,
    DESCRIBE Unreserved,
    DESIGN Unreserved,
    DETACH Unreserved,
    DISCARD Unreserved,
    DISTINCT Reserved,
    DO Reserved,
    DOUBLE Unreserved,
    DROP Unreserved,
    DUPLICATE Unreserved,
    ELSE Reserved,
    ENCODING Unreserved,
    END Reserved,
    ENFORCED Unreserved,
    ENUM Unreserved,
    ERROR Unreserved,
    ESCAPE Unreserved,
    EXCEPT Reserved,
    EXCLUDE Unreserved,
    EXCLUDING Unreserved,
    EXECUTE Unreserved,
    EXISTS ColumnName,
    EXPLAIN Unreserved,
    EXPORT Unreserved,
    EXTENSION Unreserved,
    EXTERNAL Unreserved,
    EXTRACT ColumnName,
    FALSE Reserved,
    FETCH Reserved,
    FIELDS Unreserved,
    FILTER Unreserved,
    FIRST Unreserved,
    FLOAT ColumnName,
    FOLLOWING Unreserved,
    FOR Reserved,
    FOREIGN Reserved,
    FORMAT Unreserved,
    FORWARD Unreserved,
    FREEZE FunctionName,
    FROM Reserved,
    FULL FunctionName,
    FUNCTION Unreserved,
    FUNCTIONS Unreserved,
    GENERATED Unreserved,
    GLOB Unreserved,
    GLOBAL Unreserved,
    GRANT Reserved,
    GREATEST ColumnName,
    GROUP Reserved,
    GROUPING ColumnName,
    GROUPS Unreserved,
    HAVING Reserved,
    HEADER Unreserved,
    HOLD Unreserved,
    HOUR Unreserved,
    IDENTITY Unreserved,
    IF Unreserved,
    IGNORE Unreserved,
    ILIKE FunctionName,
    IMMEDIATE Unreserved,
    IMPORT Unreserved,
    IN Reserved,
    INCLUDE Unreserved,
    INCLUDING Unreserved,
    INCREMENT Unreserved,
    INDEX Unreserved,
    INHERITS Unreserved,
    INITIALLY Reserved,
    INNER FunctionName,
    INOUT ColumnName,
    INSENSITIVE Unreserved,
    INSERT Unreserved,
    INSTALL Unreserved,
    INT ColumnName,
    INTEGER ColumnName,
    INTERSECT Reserved,
    INTERVAL ColumnName,
    INTO Reserved,
    IS FunctionName,
    ISNULL FunctionName,
    ISOLATION Unreserved,
    JOIN FunctionName,
    JSON ColumnName,
    JSON_ARRAY ColumnName,
    JSON_ARRAYAGG ColumnName,
    JSON_EXISTS ColumnName,
    JSON_OBJECT ColumnName,
    JSON_OBJECTAGG ColumnName,
    JSON_QUERY ColumnName,
    JSON_SCALAR ColumnName,
    JSON_SERIALIZE ColumnName,
    JSON_TABLE ColumnName,
    JSON_VALUE ColumnName,
    KEY Unreserved,
    LAMBDA Unreserved,
    LANGUAGE Unreserved,
    LAST Unreserved,
    LATERAL Reserved,
    LEADING Reserved,
    LEAST ColumnName,
    LEFT FunctionName,
    LEVEL Unreserved,
    LIKE FunctionName,
    LIMIT Reserved,
    LIST Unreserved,
    LISTEN Unreserved,
    LOAD Unreserved,
    LOCAL Unreserved,
    LOCALTIME Reserved,
    LOCALTIMESTAMP Reserved,
    LOCK Unreserved,
    LOCKED Unreserved,
    MACRO Unreserved,
    MAP Unreserved,
    MATCH Unreserved,
    MATCHED Unreserved,
    MATERIALIZED Unreserved,
    MAXVALUE Unreserved,
    MERGE Unreserved,
    MERGE_ACTION ColumnName,
    MINUTE Unreserved,
    MINVALUE Unreserved,
    MONTH Unreserved,
    MOVE Unreserved,
    NAME Unreserved,
    NAMES Unreserved,
    NATIONAL ColumnName,
    NATURAL Unreserved,
    NCHAR ColumnName,
    NEXT Unreserved,
    NO Unreserved,
    NONE ColumnName,
    NORMALIZE ColumnName,
    NORMALIZED Unreserved,
    NOT Reserved,
    NOTHING Unreserved,
    NOTIFY Unreserved,
    NOTNULL FunctionName,
    NOWAIT Unreserved,
    NULL Reserved,
    NULLIF ColumnName,
    NULLS Unreserved,
    NUMERIC ColumnName,
    OF Unreserved,
    OFF Unreserved,
    OFFSET Reserved,
    ON Reserved,
    ONLY Unreserved,
    OPERATOR Unreserved,
    OR Reserved,
    ORDER Reserved,
    ORDINALITY Unreserved,
    OTHERS Unreserved,
    OUT ColumnName,
    OUTER FunctionName,
    OVER Unreserved,
    OVERFLOW Unreserved,
    OVERLAPS FunctionName,
    OVERLAY ColumnName,
    OVERRIDING Unreserved,
    OWNED Unreserved,
    PARTITION Unreserved,
    PERCENT Unreserved,
    PERSISTENT Unreserved,
    PIVOT Unreserved,
    PIVOT_LONGER Unreserved,
    PIVOT_WIDER Unreserved,
    PLACING Reserved,
    PLANS Unreserved,
    POSITION ColumnName,
    POSITIONAL Unreserved,
    PRAGMA Unreserved,
    PRECEDING Unreserved,
    PRECISION ColumnName,
    PREPARE Unreserved,
    PREPARED Unreserved,
    PRESERVE Unreserved,
    PRIMARY Reserved,
    PRIOR Unreserved,
    QUALIFY Unreserved,
    QUOTE Unreserved,
    RANGE Unreserved,
    READ Unreserved,
    REAL ColumnName,
    RECURSIVE Unreserved,
    REFERENCES Reserved,
    REFRESH Unreserved,
    REINDEX Unreserved,
    RELATIVE Unreserved,
    RELEASE Unreserved,
    RENAME Unreserved,
    REPEATABLE Unreserved,
    REPLACE Unreserved,
    RESET Unreserved,
    RESPECT Unreserved,
    RESTART Unreserved,
    RESTORE Unreserved,
    RESTRICT Unreserved,
    RETURNING Reserved,
    RETURNS Unreserved,
    REVOKE Unreserved,
    RIGHT FunctionName,
    ROLE Unreserved,
    ROLLBACK Unreserved,
    ROLLUP Unreserved,
    ROW ColumnName,
    ROWS Unreserved,
    SAMPLE Unreserved,
    SAVEPOINT Unreserved,
    SCHEMA Unreserved,
    SCHEMAS Unreserved,
    SCROLL Unreserved,
    SECOND Unreserved,
    SECRET Unreserved,
    SELECT Reserved,
    SEMI Unreserved,
    SEPARATOR Unreserved,
    SEQUENCE Unreserved,
    SEQUENCES Unreserved,
    SERIALIZABLE Unreserved,
    SESSION Unreserved,
    SESSION_USER Reserved,
    SET Unreserved,
    SETOF ColumnName,
    SETS Unreserved,
    SHARE Unreserved,
    SHOW Unreserved,
    SIMILAR FunctionName,
    SKIP Unreserved,
    SMALLINT ColumnName,
    SNAPSHOT Unreserved,
    SOME Reserved,
    SOURCE Unreserved,
    START Unreserved,
    STDIN Unreserved,
    STDOUT Unreserved,
    STORED Unreserved,
    STRUCT Unreserved,
    SUBSTRING ColumnName,
    SUMMARIZE Unreserved,
    SYMMETRIC Reserved,
    SYSTEM Unreserved,
    SYSTEM_USER Reserved,
    TABLE Reserved,
    TABLES Unreserved,
    TABLESAMPLE FunctionName,
    TABLESPACE Unreserved,
    TARGET Unreserved,
    TEMP Unreserved,
    TEMPORARY Unreserved,
    THEN Reserved,
    TIES Unreserved,
    TIME ColumnName,
    TIMESTAMP ColumnName,
    TO Reserved,
    TRAILING Reserved,
    TRANSACTION Unreserved,
    TREAT ColumnName,
    TRIGGER Unreserved,
    TRIM ColumnName,
    TRUE Reserved,
    TRUNCATE Unreserved,
    TRY_CAST Unreserved,
    TYPE Unreserved,
    UNBOUNDED Unreserved,
    UNCOMMITTED Unreserved,
    UNION Reserved,
    UNIQUE Reserved,
    UNKNOWN Unreserved,
    UNLOGGED Unreserved,
    UNPIVOT Unreserved,
    UNSIGNED Unreserved,
    UPDATE Unreserved,
    USE Unreserved,
    USER Reserved,
    USING Reserved,
    VACUUM Unreserved,
    VALUE Unreserved,
    VALUES ColumnName,
    VARCHAR ColumnName,
    VARIABLE Unreserved,
    VARIADIC Reserved,
    VARYING Unreserved,
    VERBOSE FunctionName,
    VERSION Unreserved,
    VIEW Unreserved,
    VIRTUAL Unreserved,
    WHATIF Unreserved,
    WHEN Reserved,
    WHERE Reserved,
    WINDOW Reserved,
    WITH Reserved,
    WITHIN Unreserved,
    WITHOUT Unreserved,
    WORK Unreserved,
    WRITE Unreserved,
    XMLATTRIBUTES ColumnName,
    XMLCONCAT ColumnName,
    XMLELEMENT ColumnName,
    XMLEXISTS ColumnName,
    XMLFOREST ColumnName,
    XMLNAMESPACES ColumnName,
    XMLPARSE ColumnName,
    XMLPI ColumnName,
    XMLROOT ColumnName,
    XMLSERIALIZE ColumnName,
    XMLTABLE ColumnName,
    YEAR Unreserved,
    ZONE Unreserved,
}

/// More than the letters of the longest keyword.
const LETTERS_MAX: usize = 24;

/// Where the keywords of each first letter end in the table.
const ENDS: [usize; 26] = {
    let mut ends = [0; 26];
    let mut at = 0;
    while at < KEYWORDS.len() {
        ends[(KEYWORDS[at].0.as_bytes()[0] - b'A') as usize] = at + 1;
        at += 1;
    }
    let mut letter = 1;
    while letter < 26 {
        if ends[letter] == 0 {
            ends[letter] = ends[letter - 1];
        }
        letter += 1;
    }
    ends
};

impl Keyword {
    /// The keyword that is spelt like this, in any case.
    pub fn of(word: &str) -> Option<Keyword> {
        if word.len() < 2 {
            return None;
        }
        let mut letters = [0; LETTERS_MAX];
        let upper = letters.get_mut(..word.len())?;
        upper.copy_from_slice(word.as_bytes());
        upper.make_ascii_uppercase();
        let first = usize::from(upper.first()?.checked_sub(b'A')?);
        let start = first.checked_sub(1).map_or(0, |before| ENDS.get(before).copied().unwrap_or(0));
        let known = KEYWORDS.get(start..*ENDS.get(first)?)?;
        let at = known.binary_search_by(|(known, _, _)| known.as_bytes().cmp(upper)).ok()?;
        known.get(at).map(|(_, keyword, _)| *keyword)
    }

    /// All keywords with their spelling, in alphabetical order.
    pub fn all() -> impl Iterator<Item = (&'static str, Keyword)> {
        KEYWORDS.iter().map(|(word, keyword, _)| (*word, *keyword))
    }

    fn entry(self) -> &'static (&'static str, Keyword, Class) {
        // The variants are numbered like the entries.
        &KEYWORDS[self as usize]
    }

    /// The word, in upper case.
    pub fn word(self) -> &'static str {
        self.entry().0
    }

    /// Where it can be a name.
    pub fn class(self) -> Class {
        self.entry().2
    }

    /// Whether it can be the name of a column or a table.
    pub fn names_column(self) -> bool {
        matches!(self.class(), Class::Unreserved | Class::ColumnName)
    }

    /// Whether it can be the name of a result column without AS before it.
    pub fn is_bare_label(self) -> bool {
        use Keyword as K;
        !matches!(
            self,
            K::ARRAY
                | K::AS
                | K::CHAR
                | K::CHARACTER
                | K::CREATE
                | K::DAY
                | K::EXCEPT
                | K::FETCH
                | K::FILTER
                | K::FOR
                | K::FROM
                | K::GRANT
                | K::GROUP
                | K::HAVING
                | K::HOUR
                | K::INTERSECT
                | K::INTO
                | K::ISNULL
                | K::LIMIT
                | K::MINUTE
                | K::MONTH
                | K::NOTNULL
                | K::OFFSET
                | K::ON
                | K::ORDER
                | K::OVER
                | K::OVERLAPS
                | K::PRECISION
                | K::RETURNING
                | K::SECOND
                | K::TO
                | K::UNION
                | K::VARYING
                | K::WHERE
                | K::WINDOW
                | K::WITH
                | K::WITHIN
                | K::WITHOUT
                | K::YEAR
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted_and_found_in_any_case() {
        assert!(KEYWORDS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(KEYWORDS.iter().all(|(word, keyword, _)| word.len() < LETTERS_MAX && keyword.word() == *word));
        assert_eq!(Keyword::of("sElEcT"), Some(Keyword::SELECT));
        assert_eq!(Keyword::of("selects"), None);
        assert_eq!(Keyword::of(&"x".repeat(1000)), None);
        assert!(Keyword::SELECT.is_bare_label() && !Keyword::FROM.is_bare_label());
    }
}

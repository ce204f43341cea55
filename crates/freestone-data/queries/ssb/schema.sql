-- The five tables of the Star Schema Benchmark (revision 3), dimensions before facts so that every foreign key finds its table.
CREATE TABLE date (
    d_datekey INT NOT NULL,
    d_date VARCHAR NOT NULL,
    d_dayofweek VARCHAR NOT NULL,
    d_month VARCHAR NOT NULL,
    d_year INT NOT NULL,
    d_yearmonthnum INT NOT NULL,
    d_yearmonth VARCHAR NOT NULL,
    d_daynuminweek INT NOT NULL,
    d_daynuminmonth INT NOT NULL,
    d_daynuminyear INT NOT NULL,
    d_monthnuminyear INT NOT NULL,
    d_weeknuminyear INT NOT NULL,
    d_sellingseason VARCHAR NOT NULL,
    d_lastdayinweekfl TINYINT NOT NULL,
    d_lastdayinmonthfl TINYINT NOT NULL,
    d_holidayfl TINYINT NOT NULL,
    d_weekdayfl TINYINT NOT NULL,
    PRIMARY KEY (d_datekey) NOT ENFORCED
);

CREATE TABLE part (
    p_partkey INT NOT NULL,
    p_name VARCHAR NOT NULL,
    p_mfgr VARCHAR NOT NULL,
    p_category VARCHAR NOT NULL,
    p_brand1 VARCHAR NOT NULL,
    p_color VARCHAR NOT NULL,
    p_type VARCHAR NOT NULL,
    p_size INT NOT NULL,
    p_container VARCHAR NOT NULL,
    PRIMARY KEY (p_partkey) NOT ENFORCED
);

CREATE TABLE supplier (
    s_suppkey INT NOT NULL,
    s_name VARCHAR NOT NULL,
    s_address VARCHAR NOT NULL,
    s_city VARCHAR NOT NULL,
    s_nation VARCHAR NOT NULL,
    s_region VARCHAR NOT NULL,
    s_phone VARCHAR NOT NULL,
    PRIMARY KEY (s_suppkey) NOT ENFORCED
);

CREATE TABLE customer (
    c_custkey INT NOT NULL,
    c_name VARCHAR NOT NULL,
    c_address VARCHAR NOT NULL,
    c_city VARCHAR NOT NULL,
    c_nation VARCHAR NOT NULL,
    c_region VARCHAR NOT NULL,
    c_phone VARCHAR NOT NULL,
    c_mktsegment VARCHAR NOT NULL,
    PRIMARY KEY (c_custkey) NOT ENFORCED
);

CREATE TABLE lineorder (
    lo_orderkey BIGINT NOT NULL,
    lo_linenumber INT NOT NULL,
    lo_custkey INT NOT NULL,
    lo_partkey INT NOT NULL,
    lo_suppkey INT NOT NULL,
    lo_orderdate INT NOT NULL,
    lo_orderpriority VARCHAR NOT NULL,
    lo_shippriority VARCHAR NOT NULL,
    lo_quantity INT NOT NULL,
    lo_extendedprice INT NOT NULL,
    lo_ordtotalprice INT NOT NULL,
    lo_discount INT NOT NULL,
    lo_revenue INT NOT NULL,
    lo_supplycost INT NOT NULL,
    lo_tax INT NOT NULL,
    lo_commitdate INT NOT NULL,
    lo_shipmode VARCHAR NOT NULL,
    PRIMARY KEY (lo_orderkey, lo_linenumber) NOT ENFORCED,
    FOREIGN KEY (lo_custkey) REFERENCES customer (c_custkey) NOT ENFORCED,
    FOREIGN KEY (lo_partkey) REFERENCES part (p_partkey) NOT ENFORCED,
    FOREIGN KEY (lo_suppkey) REFERENCES supplier (s_suppkey) NOT ENFORCED,
    FOREIGN KEY (lo_orderdate) REFERENCES date (d_datekey) NOT ENFORCED,
    FOREIGN KEY (lo_commitdate) REFERENCES date (d_datekey) NOT ENFORCED
);

-- Statements and functions that people of DuckDB and PostgreSQL type in their first hour, one per line.
-- `conformance/everyday.py` runs each in DuckDB and in Freestone and compares the answers.

--! tables
CREATE TABLE people (id INT, name VARCHAR, city VARCHAR, age INT, score DOUBLE, paid DECIMAL(10,2), born DATE, seen TIMESTAMP, active BOOLEAN)
INSERT INTO people VALUES (1,'Ada','Oslo',36,1.5,10.25,DATE '1988-02-29',TIMESTAMP '2024-03-01 08:15:30',true),(2,'Bob','Rome',41,2.5,20.50,DATE '1983-12-31',TIMESTAMP '2024-02-29 23:59:59.5',false),(3,'Cid','Oslo',NULL,-0.5,NULL,DATE '2000-01-01',NULL,true),(4,'Dee',NULL,29,NULL,7.75,NULL,TIMESTAMP '1999-12-31 00:00:00',NULL),(5,'Eve','Rome',41,3.25,0.00,DATE '1995-07-14',TIMESTAMP '2024-03-01 09:00:00',false)
CREATE TABLE orders (id INT, person INT, amount DECIMAL(10,2), day DATE, note VARCHAR)
INSERT INTO orders VALUES (10,1,99.90,DATE '2024-01-05','first'),(11,1,5.00,DATE '2024-01-20',NULL),(12,2,42.00,DATE '2024-02-01','x,y,z'),(13,5,7.50,DATE '2024-02-15',''),(14,9,1.25,DATE '2024-03-01','orphan')

--! statements
FROM people ORDER BY id
FROM people SELECT name ORDER BY name
SELECT * FROM people ORDER BY ALL
SELECT city, count(*) FROM people GROUP BY ALL ORDER BY ALL
SELECT * EXCLUDE (born, seen) FROM people ORDER BY id
SELECT * REPLACE (age + 1 AS age) FROM people ORDER BY id
SELECT * RENAME (name AS who) FROM people ORDER BY id
SELECT COLUMNS('.*a.*') FROM people ORDER BY id
SELECT min(COLUMNS(*)) FROM people
SELECT age * 2 AS twice, twice + 1 AS more FROM people ORDER BY id
SELECT age AS a FROM people WHERE a > 30 ORDER BY id
SELECT city AS c, count(*) FROM people GROUP BY c ORDER BY c NULLS FIRST
SELECT city, sum(age) AS s FROM people GROUP BY city HAVING s > 50 ORDER BY 1
SELECT name, row_number() OVER (PARTITION BY city ORDER BY id) AS r FROM people QUALIFY r = 1 ORDER BY name
SELECT name FROM people QUALIFY rank() OVER (ORDER BY age DESC NULLS LAST) <= 2 ORDER BY name
SELECT DISTINCT ON (city) city, name FROM people ORDER BY city NULLS FIRST, id
SELECT name FROM people ORDER BY id LIMIT 2 OFFSET 1
SELECT name FROM people ORDER BY id FETCH FIRST 2 ROWS ONLY
SELECT name FROM people ORDER BY id OFFSET 1 ROW FETCH NEXT 1 ROW ONLY
SELECT name FROM people ORDER BY id LIMIT 40%
TABLE orders ORDER BY id
VALUES (1, 'a'), (2, 'b')
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, t) ORDER BY n
SELECT p.name, o.amount FROM people p JOIN orders o ON p.id = o.person ORDER BY o.id
SELECT p.name, o.amount FROM people p LEFT JOIN orders o ON p.id = o.person ORDER BY p.id, o.id
SELECT o.id, p.name FROM people p RIGHT JOIN orders o ON p.id = o.person ORDER BY o.id
SELECT p.id, o.id FROM people p FULL JOIN orders o ON p.id = o.person ORDER BY ALL
SELECT name FROM people p SEMI JOIN orders o ON p.id = o.person ORDER BY name
SELECT name FROM people p ANTI JOIN orders o ON p.id = o.person ORDER BY name
SELECT id FROM people SEMI JOIN orders USING (id) ORDER BY id
SELECT p.name, o.day FROM people p ASOF JOIN orders o ON p.id = o.person AND p.seen >= o.day ORDER BY p.id
SELECT a.n, b.n FROM (VALUES (1),(2)) a(n) POSITIONAL JOIN (VALUES (3),(4)) b(n)
SELECT p.name, t.total FROM people p, LATERAL (SELECT sum(amount) AS total FROM orders o WHERE o.person = p.id) t ORDER BY p.id
SELECT p.name, o.id FROM people p CROSS JOIN orders o WHERE p.id = 1 ORDER BY o.id
SELECT name FROM people WHERE id IN (SELECT person FROM orders) ORDER BY name
SELECT name FROM people WHERE EXISTS (SELECT 1 FROM orders WHERE person = people.id AND amount > 50)
SELECT name, (SELECT max(amount) FROM orders WHERE person = people.id) FROM people ORDER BY id
SELECT name FROM people WHERE age > ANY (SELECT age FROM people WHERE city = 'Oslo') ORDER BY name
WITH rich AS (SELECT * FROM people WHERE paid > 8) SELECT count(*) FROM rich
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t
WITH c AS MATERIALIZED (SELECT id FROM people) SELECT count(*) FROM c
SELECT id FROM people UNION SELECT person FROM orders ORDER BY 1
SELECT id FROM people INTERSECT SELECT person FROM orders ORDER BY 1
SELECT person FROM orders EXCEPT SELECT id FROM people ORDER BY 1
SELECT 1 AS a, 2 AS b UNION ALL BY NAME SELECT 3 AS b, 4 AS a ORDER BY ALL
SELECT city, count(*) FROM people GROUP BY ROLLUP (city) ORDER BY ALL
SELECT city, active, count(*) FROM people GROUP BY CUBE (city, active) ORDER BY ALL
SELECT city, active, count(*) FROM people GROUP BY GROUPING SETS ((city), (active), ()) ORDER BY ALL
SELECT count(*) FILTER (WHERE active) FROM people
SELECT count(DISTINCT city) FROM people
SELECT sum(amount) OVER (ORDER BY day ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders ORDER BY day
SELECT amount - lag(amount) OVER (ORDER BY id) FROM orders ORDER BY id
SELECT first_value(name) OVER w, last_value(name) OVER w FROM people WINDOW w AS (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) ORDER BY id
SELECT ntile(2) OVER (ORDER BY id), percent_rank() OVER (ORDER BY id), cume_dist() OVER (ORDER BY id), dense_rank() OVER (ORDER BY city) FROM people ORDER BY id
PIVOT orders ON person USING sum(amount) GROUP BY day ORDER BY day
UNPIVOT (SELECT id, age AS x, score AS y FROM people WHERE id = 1) ON x, y
SELECT * FROM people USING SAMPLE 100 PERCENT (bernoulli) ORDER BY id
SELECT CASE WHEN age > 40 THEN 'old' WHEN age > 30 THEN 'mid' ELSE 'young' END FROM people ORDER BY id
SELECT CASE city WHEN 'Oslo' THEN 1 ELSE 0 END FROM people ORDER BY id
SELECT name FROM people WHERE name LIKE 'A%' OR name ILIKE 'b%' ORDER BY 1
SELECT name FROM people WHERE name SIMILAR TO '(A|B).*' ORDER BY 1 --~ SIMILAR TO has the patterns of the SQL standard and PostgreSQL, not regular expressions
SELECT name FROM people WHERE name ~ '^[AB]' ORDER BY 1
SELECT name FROM people WHERE name GLOB 'A*'
SELECT name FROM people WHERE age BETWEEN 30 AND 40
SELECT name FROM people WHERE age IS DISTINCT FROM 41 ORDER BY name
SELECT name FROM people WHERE city NOT IN ('Oslo') ORDER BY name
SELECT name FROM people WHERE (city, age) = ('Rome', 41) ORDER BY name
SELECT count(*) FROM people WHERE active IS NOT TRUE
SELECT 1 + 2 * 3, 7 // 2, 7 % 3, 2 ** 3, 2 ^ 3, -5 % 3
SELECT 7 / 2 --~ integers are divided as in PostgreSQL
SELECT 'a' || 'b', 'a' || NULL, concat('a', NULL, 'b'), 'x' || 1
SELECT 1_000_000, 1e3, .5
SELECT 0x1F --~ an integer in base 16, as in PostgreSQL
SELECT 5::VARCHAR, '12'::INT, CAST('1.50' AS DECIMAL(4,2)), TRY_CAST('x' AS INT)
SELECT TRUE AND NULL, TRUE OR NULL, NOT NULL, 1 = NULL
SELECT 5 & 3, 5 | 3, xor(5, 3), ~5, 1 << 4, 16 >> 2
EXPLAIN SELECT 1
DESCRIBE people
SHOW TABLES
SUMMARIZE orders
SELECT typeof(1) --~ integers in statements are BIGINT
SELECT typeof('a'), typeof(1.5), typeof(DATE '2024-01-01'), typeof(NULL)
SELECT range FROM range(3)
SELECT * FROM range(2, 10, 3)
SELECT generate_series FROM generate_series(1, 3)
SELECT unnest([1, 2, 3])
SELECT * FROM unnest([1, 2, 3]) AS t(n)
SELECT [1, 2, 3], [1, 2, 3][2], [1, 2, 3, 4][2:3]
SELECT {'a': 1, 'b': 'x'}, {'a': 1}.a
SELECT MAP {'k': 1}['k']
SELECT list_transform([1, 2, 3], x -> x * 2) --~ the arrow is allowed, too
SELECT [x * 2 for x in [1, 2, 3] if x > 1]
CREATE OR REPLACE TABLE tmp1 AS SELECT 1 AS a
CREATE TABLE IF NOT EXISTS tmp1 (a INT)
CREATE TEMP TABLE tmp2 (a INT)
CREATE VIEW view1 AS SELECT id FROM people
CREATE OR REPLACE VIEW view1 AS SELECT id, name FROM people
INSERT INTO tmp1 BY NAME SELECT 7 AS a
INSERT INTO tmp1 SELECT id FROM people
INSERT INTO tmp1 VALUES (100) RETURNING a
INSERT INTO tmp1 DEFAULT VALUES
UPDATE tmp1 SET a = a + 1 WHERE a > 3
UPDATE tmp1 SET a = o.id FROM orders o WHERE o.person = tmp1.a
DELETE FROM tmp1 WHERE a > 6
DELETE FROM tmp1 USING orders WHERE orders.person = tmp1.a
SELECT count(*) FROM tmp1
TRUNCATE tmp1
ALTER TABLE tmp1 ADD COLUMN b INT
ALTER TABLE tmp1 RENAME COLUMN a TO c
ALTER TABLE tmp1 DROP COLUMN b
ALTER TABLE tmp1 ALTER c TYPE BIGINT
ALTER TABLE tmp1 RENAME TO tmp3
DROP TABLE tmp3
DROP VIEW IF EXISTS view1
DROP TABLE IF EXISTS nothing
CREATE SCHEMA s1
CREATE SEQUENCE seq1
SELECT nextval('seq1')
CREATE TABLE keyed (k INT PRIMARY KEY, v INT DEFAULT 5, CHECK (v > 0))
INSERT INTO keyed (k) VALUES (1), (2)
INSERT INTO keyed VALUES (1, 9) ON CONFLICT DO NOTHING
INSERT INTO keyed VALUES (1, 9) ON CONFLICT (k) DO UPDATE SET v = excluded.v
INSERT OR REPLACE INTO keyed VALUES (2, 8)
SELECT * FROM keyed ORDER BY k
CREATE TYPE mood AS ENUM ('sad', 'ok')
CREATE TABLE moods (who VARCHAR, m mood)
INSERT INTO moods VALUES ('a', 'ok'), ('b', 'sad'), ('c', NULL)
SELECT who, m FROM moods ORDER BY m NULLS LAST
SELECT max(m), min(m), count(*) FILTER (WHERE m > 'sad'::mood) FROM moods
SELECT count(*) FROM moods WHERE m > 'sad' --~ a text in quotes is a label, as in PostgreSQL; DuckDB compares texts
SELECT enum_range(NULL::mood), enum_code('ok'::mood)
CREATE MACRO plus(a, b) AS a + b
SELECT plus(1, 2)
CREATE TABLE like1 AS FROM people LIMIT 0
BEGIN TRANSACTION
ROLLBACK
PREPARE q AS SELECT $1 + 1
EXECUTE q(41)
DEALLOCATE q
SET VARIABLE x = 5
SELECT getvariable('x')
COMMENT ON TABLE people IS 'humans'
CHECKPOINT --~ every commit is durable, and the log is folded by itself
ANALYZE

--! numbers
SELECT abs(-5), sign(-3), sign(0), sign(2.5)
SELECT ceil(1.2), ceiling(1.2), floor(-1.2), trunc(1.9), trunc(-1.9)
SELECT round(2.5), round(-2.5), round(1.2345, 2), round(1250, -2)
SELECT sqrt(16), cbrt(27), power(2, 10), pow(2, 0.5), exp(1)
SELECT ln(10), log(100), log10(1000), log2(8), log(2, 8)
SELECT sin(1), cos(1), tan(1), asin(0.5), acos(0.5), atan(1), atan2(1, 2), cot(1)
SELECT sinh(1), cosh(1), tanh(1)
SELECT pi(), degrees(pi()), radians(180)
SELECT mod(7, 3), fmod(7.5, 2), gcd(12, 18), lcm(4, 6), factorial(5)
SELECT greatest(1, 3, 2), least(1, 3, 2), greatest(1, NULL, 2)
SELECT even(2.1), nextafter(1::DOUBLE, 2::DOUBLE) > 1, isnan('nan'::DOUBLE), isinf('inf'::DOUBLE), isfinite(1::DOUBLE)
SELECT bit_count(7)
SELECT width_bucket(5, 0, 10, 5) --= 3
SELECT random() BETWEEN 0 AND 1, setseed(0.5) IS NULL
SELECT add(1, 2), subtract(5, 3), multiply(2, 3), divide(7, 2)
SELECT gamma(5), lgamma(5)
SELECT bin(5), hex(255), to_base(10, 2), format('{:,}', 1234567)

--! strings
SELECT length('abc'), len('abc'), char_length('äb'), character_length('x'), bit_length('a')
SELECT octet_length('äb'::BLOB) --~ a text becomes its bytes, as in PostgreSQL
SELECT upper('abc'), ucase('a'), lower('ABC'), lcase('A')
SELECT initcap('hello world') --= Hello World
SELECT substring('hello', 2, 3), substr('hello', 2), substring('hello' FROM 2 FOR 2), left('hello', 2), right('hello', 2), 'hello'[2:3]
SELECT trim('  x '), ltrim('  x'), rtrim('x  '), trim('xxaxx', 'x'), trim(BOTH 'x' FROM 'xax')
SELECT btrim('xax', 'x') --= a
SELECT replace('banana', 'a', 'o'), translate('hello', 'el', 'ip'), reverse('abc'), repeat('ab', 3)
SELECT position('l' IN 'hello'), strpos('hello', 'l'), instr('hello', 'l'), contains('hello', 'ell'), starts_with('hello', 'he'), ends_with('hello', 'lo'), suffix('hello', 'lo'), prefix('hello', 'he')
SELECT 'hello' ^@ 'he', lpad('7', 3, '0'), rpad('7', 3, '*'), split_part('a,b,c', ',', 2), split_part('a,b,c', ',', -1)
SELECT string_split('a,b,c', ','), str_split('a,b', ','), string_to_array('a,b', ','), split('a b', ' ')
SELECT regexp_matches('hello', 'l+'), regexp_replace('hello', 'l', 'L'), regexp_replace('hello', 'l', 'L', 'g'), regexp_extract('a12b', '[0-9]+'), regexp_extract('a12b', '([a-z])([0-9]+)', 2)
SELECT regexp_extract_all('a1b22', '[0-9]+'), regexp_split_to_array('a1b2', '[0-9]'), regexp_full_match('abc', 'a.c')
SELECT concat_ws('-', 'a', NULL, 'b'), concat('a', 1, true), array_to_string(['a', 'b'], ',')
SELECT ascii('A'), chr(65), unicode('ä'), ord('a')
SELECT md5('a'), sha256('a'), sha1('a')
SELECT printf('%d %s %.2f', 5, 'x', 1.5), format('{} {}', 1, 'a'), format('{:.2f}', 3.14159)
SELECT levenshtein('kitten', 'sitting'), editdist3('ab', 'ac'), hamming('abc', 'abd'), jaccard('ab', 'abc'), jaro_winkler_similarity('abc', 'abd'), damerau_levenshtein('ab', 'ba')
SELECT encode('a'), decode('a'::BLOB), to_base64('a'::BLOB), from_base64('YQ=='), base64('a'::BLOB), hex('a'), unhex('61')
SELECT url_encode('a b'), url_decode('a%20b'), nfc_normalize('a'), strip_accents('äé')
SELECT parse_path('a/b/c'), parse_filename('a/b.csv'), parse_dirname('a/b'), parse_filename('a/b.csv', true)
SELECT bar(5, 0, 10, 10), like_escape('a%c', 'a$%c', '$'), string_agg(name, ',' ORDER BY id) FROM people
SELECT text FROM (SELECT 'a' AS text), left('äöü', 1) AS t

--! dates
SELECT DATE '2024-02-29', TIMESTAMP '2024-02-29 12:34:56', TIME '12:34:56', INTERVAL '3 days'
SELECT date '2024-01-31' + INTERVAL 1 MONTH, date '2024-03-01' - INTERVAL '1 day', date '2024-01-10' - date '2024-01-01', date '2024-01-01' + 5
SELECT timestamp '2024-01-02 00:00:00' - timestamp '2024-01-01 12:00:00', INTERVAL '1 month' + INTERVAL '2 days'
SELECT extract(year FROM DATE '2024-02-29'), date_part('month', DATE '2024-02-29'), extract(epoch FROM TIMESTAMP '1970-01-02'), extract(dow FROM DATE '2024-02-29'), extract(isodow FROM DATE '2024-03-03'), extract(doy FROM DATE '2024-02-29'), extract(quarter FROM DATE '2024-05-01'), extract(week FROM DATE '2024-01-01')
SELECT year(DATE '2024-02-29'), month(DATE '2024-02-29'), day(DATE '2024-02-29'), quarter(DATE '2024-02-29'), week(DATE '2024-02-29'), dayofweek(DATE '2024-02-29'), dayofyear(DATE '2024-02-29'), weekday(DATE '2024-02-29'), yearweek(DATE '2024-02-29'), isodow(DATE '2024-02-29')
SELECT hour(TIMESTAMP '2024-01-01 12:34:56'), minute(TIMESTAMP '2024-01-01 12:34:56'), second(TIMESTAMP '2024-01-01 12:34:56'), millisecond(TIMESTAMP '2024-01-01 12:34:56.789'), microsecond(TIMESTAMP '2024-01-01 12:34:56.789')
SELECT dayname(DATE '2024-02-29'), monthname(DATE '2024-02-29'), last_day(DATE '2024-02-01'), era(DATE '2024-01-01'), decade(DATE '2024-01-01'), century(DATE '2024-01-01')
SELECT date_trunc('month', TIMESTAMP '2024-02-29 12:34:56'), date_trunc('week', DATE '2024-02-29'), date_trunc('hour', TIMESTAMP '2024-02-29 12:34:56')
SELECT date_diff('day', DATE '2024-01-01', DATE '2024-02-01'), datediff('month', DATE '2024-01-31', DATE '2024-02-01'), date_sub('month', DATE '2024-01-31', DATE '2024-02-01'), date_add(DATE '2024-01-01', INTERVAL 1 DAY)
SELECT age(TIMESTAMP '2024-03-01', TIMESTAMP '2023-01-15'), epoch(TIMESTAMP '2024-01-01'), epoch_ms(TIMESTAMP '2024-01-01'), epoch_us(TIMESTAMP '2024-01-01'), epoch_ns(TIMESTAMP '2024-01-01')
SELECT make_date(2024, 2, 29), make_time(12, 34, 56.5), make_timestamp(2024, 2, 29, 12, 34, 56.5), to_timestamp(0), epoch_ms(0)
SELECT strftime(DATE '2024-02-29', '%Y/%m/%d'), strftime(TIMESTAMP '2024-02-29 01:02:03', '%a %d %b %H:%M:%S'), strptime('29.02.2024', '%d.%m.%Y'), try_strptime('x', '%d')
SELECT time_bucket(INTERVAL '15 minutes', TIMESTAMP '2024-01-01 12:34:56')
SELECT date_bin(INTERVAL '15 minutes', TIMESTAMP '2024-01-01 12:34:56', TIMESTAMP '2024-01-01') --= 2024-01-01 12:30:00
SELECT to_days(3), to_hours(2), to_months(1), to_minutes(5), to_seconds(5), to_years(1), to_weeks(1)
SELECT current_date IS NOT NULL, current_timestamp IS NOT NULL, now() IS NOT NULL, today() IS NOT NULL, current_time IS NOT NULL, localtimestamp IS NOT NULL
SELECT julian(DATE '2024-01-01'), isfinite(DATE '2024-01-01'), greatest(DATE '2024-01-01', DATE '2023-01-01')
SELECT TIMESTAMPTZ '2024-01-01 12:00:00+00' AT TIME ZONE 'Europe/Oslo', TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Europe/Oslo' AT TIME ZONE 'UTC'
SELECT datepart('year', DATE '2024-01-01'), datetrunc('year', DATE '2024-05-05'), date_part(['year', 'month'], DATE '2024-05-05')
SELECT * FROM generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL 1 DAY)

--! conditions
SELECT current_schema() --~ the schema is called public, as in PostgreSQL
SELECT nvl(NULL, 3) --= 3
SELECT coalesce(NULL, 1), ifnull(NULL, 2), nullif(1, 1), if(true, 1, 2), iff(false, 1, 2)
SELECT hash(1) = hash(1), hash('a') <> hash('b'), uuid() IS NOT NULL, gen_random_uuid() IS NOT NULL
SELECT version() IS NOT NULL, current_database() IS NOT NULL, current_user IS NOT NULL
SELECT error('boom')
SELECT alias(name), constant_or_null(1, 2), typeof(name) FROM people WHERE id = 1

--! aggregates
SELECT count(*), count(age), sum(age), avg(age), min(name), max(name) FROM people
SELECT median(age), mode(age), quantile_cont(age, 0.5), quantile_disc(age, 0.5), percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FROM people
SELECT stddev(age), stddev_pop(age), stddev_samp(age), variance(age), var_pop(age), var_samp(age) FROM people
SELECT corr(id, age), covar_pop(id, age), covar_samp(id, age), regr_slope(id, age), regr_intercept(id, age), regr_r2(id, age), regr_count(id, age) FROM people
SELECT bool_and(active), bool_or(active) FROM people
SELECT every(active) FROM people --= false
SELECT bit_and(id), bit_or(id), bit_xor(id) FROM people
SELECT arg_max(name, score), arg_min(name, score), max_by(name, score), min_by(name, score) FROM people
SELECT first(name ORDER BY id), last(name ORDER BY id), any_value(name) IS NOT NULL FROM people
SELECT list(name ORDER BY id), array_agg(age ORDER BY id), string_agg(name, '|' ORDER BY id), group_concat(name, '|' ORDER BY id), listagg(name, '|' ORDER BY id) FROM people
SELECT count_if(age > 30), countif(age > 30), sum_no_overflow(id), product(id), fsum(score), favg(score), kahan_sum(score) FROM people
SELECT approx_count_distinct(city) FROM people
SELECT approx_quantile(age, 0.5) FROM people --~ another approximation
SELECT histogram(city), histogram(age) FROM people
SELECT skewness(age), kurtosis(age), entropy(city), mad(age), sem(age) FROM people
SELECT max(id, 2), min(id, 2), arg_max(name, id, 2) FROM people
SELECT geomean(id), geometric_mean(id) FROM people
SELECT bitstring_agg(id) FROM people --~ no BIT type
SELECT city, list(DISTINCT age ORDER BY age) FROM people GROUP BY city ORDER BY city

--! lists
SELECT list_value(1, 2), array_value(1, 2), list_contains([1, 2], 2), list_has([1], 1), array_contains([1, 2], 3), contains([1, 2], 1)
SELECT list_position([1, 2], 2), array_position([5, 6], 6), list_indexof([1, 2], 1), len([1, 2, 3]), array_length([1, 2, 3]), length([1, 2])
SELECT list_append([1], 2), list_prepend(0, [1]), list_concat([1], [2]), list_cat([1], [2]), array_append([1], 2), array_push_back([1], 2), [1] || [2]
SELECT list_sort([3, 1, 2]), list_reverse_sort([3, 1, 2]), list_reverse([1, 2]), array_sort([2, 1]), list_sort([3, NULL, 1], 'DESC', 'NULLS LAST')
SELECT list_distinct([1, 1, 2]) IS NOT NULL, list_unique([1, 1, 2]), array_unique([1, 1])
SELECT list_sum([1, 2]), list_avg([1, 2]), list_min([1, 2]), list_max([1, 2]), list_count([1, NULL]), list_aggregate([1, 2], 'sum'), list_any_value([NULL, 2]), list_first([1, 2]), list_last([1, 2])
SELECT list_slice([1, 2, 3], 2, 3), list_extract([1, 2], 1), list_element([1, 2], 2), array_extract([1, 2], 1), array_slice([1, 2, 3], 1, 2)
SELECT list_filter([1, 2, 3], lambda x: x > 1), list_apply([1], lambda x: x + 1), array_transform([1, 2], lambda x: x * x)
SELECT list_reduce([1, 2, 3], lambda x, y: x + y), list_transform([5, 6], lambda x, i: x * i)
SELECT list_filter([1, 2, 3], x -> x > 1) --~ the arrow is allowed, too
SELECT list_zip([1, 2], ['a', 'b']) --~ fields of rows have names
SELECT flatten([[1], [2, 3]]), list_resize([1], 3), list_intersect([1, 2], [2, 3]), list_has_any([1, 2], [2]), list_has_all([1, 2], [1])
SELECT range(3), range(1, 7, 2), generate_series(1, 3), repeat([1], 2), list_where([1, 2, 3], [true, false, true]), list_select([1, 2, 3], [1, 3])
SELECT list_cosine_similarity([1.0, 2.0], [1.0, 2.0]), list_distance([1.0, 1.0], [1.0, 2.0]), list_dot_product([1.0, 2.0], [1.0, 2.0])
SELECT array_to_string([1, 2], ','), list_string_agg(['a', 'b']), unnest([1, 2]) AS u, list_grade_up([3, 1, 2])

--! structs and maps
SELECT row(1, 'x') --~ fields of a row have names
SELECT struct_pack(a := 1, b := 'x'), struct_extract({'a': 1}, 'a'), struct_insert({'a': 1}, b := 2)
SELECT unnest({'a': 1, 'b': 2})
SELECT map(['a', 'b'], [1, 2]), map_keys(MAP {'a': 1}), map_values(MAP {'a': 1}), map_contains(MAP {'a': 1}, 'a'), cardinality(MAP {'a': 1}), map_extract(MAP {'a': 1}, 'a'), element_at(MAP {'a': 1}, 'a')
SELECT map_from_entries([('a', 1)]), map_entries(MAP {'a': 1}), map_concat(MAP {'a': 1}, MAP {'b': 2})
SELECT s.a FROM (SELECT {'a': 1, 'b': 2} AS s)
SELECT s.* FROM (SELECT {'a': 1, 'b': 2} AS s)

--! json
SELECT '{"a": 1}'::JSON, json_extract('{"a": {"b": 2}}', '$.a.b'), '{"a": 1}'::JSON -> 'a', '{"a": "x"}'::JSON ->> 'a', json_extract_string('{"a": "x"}', 'a')
SELECT json_array_length('[1, 2]'), json_keys('{"a": 1}'), json_type('{"a": 1}'), json_valid('{'), to_json({'a': 1}), json_object('a', 1), json_array(1, 'x')
SELECT json_set('{"a": 1}', '$.b', '2'), json_merge_patch('{"a": 1}', '{"b": 2}'), json_structure('{"a": [1, 2.5]}'), json_transform('{"a": 1}', '{"a": "INTEGER"}')
SELECT key, value, type FROM json_each('{"a": 1, "b": [2]}')
SELECT fullkey, atom FROM json_tree('{"a": {"b": [1]}}')
SELECT json_group_object(name, age) FROM people

"""Differential test of functions: compares with DuckDB.

    python3 conformance/random_functions.py SCRIPT [CALLS] [SEED]

SCRIPT is the command line `freestone`, or the example `script` of the engine. The Python module `duckdb` must be installed.
Calls each function of `CALLS` with columns and literals: NULL, NaN, infinities, extremes, empty and Unicode texts; and aggregates
with and without GROUP BY, FILTER and DISTINCT. Results are compared as texts, numbers with nine digits. Prints the seed, and each
call whose answers differ. The exit status is 1 if there is one.
"""

import random
import re
import sys
import tempfile

import duckdb
from differential import arguments, create, differ, ours

BATCH = 300
TEXTS = ["", "a", "abc", "Hello World", "äöü", "日本語", "a,b,,c", "  x ", "a1b22c333", "O'Brien", "%_", "ABC", "aaa", "2024-02-29", "x\ny", "😀b"]
INTS = ["0", "1", "-1", "2", "3", "7", "-5", "10", "255", "1000000", "-2147483648", "2147483647"]
SMALL = ["0", "1", "2", "3", "4", "-1", "-2"]
REALS = ["0.0", "1.5", "-2.5", "0.1", "1e10", "-1e-7", "123456.789", "'nan'::DOUBLE", "'inf'::DOUBLE", "'-inf'::DOUBLE", "2.5", "3.5"]
FINITE = ["0.0", "1.5", "-2.5", "0.1", "10000000000.0", "123456.789", "2.5", "3.5"]
DATES = ["2024-01-31", "2024-02-29", "2023-02-28", "1970-01-01", "1969-12-31", "0001-01-01", "9999-12-31", "2000-02-29", "2020-12-31", "2021-01-03"]
CLOCKS = ["00:00:00", "23:59:59.999999", "12:34:56.789", "01:02:03", "00:00:00.000001"]
PARTS = ["year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond", "quarter", "week", "decade", "century", "millennium", "isoyear"]
PATTERNS = ["[0-9]+", "([a-z])([0-9]*)", "a|b", "^a", "b$", ".", "(b)?c", "\\\\s", "[[:alpha:]]+", "a{2}", "(?i)A"]
FORMATS = ["%Y-%m-%d", "%d.%m.%y %H:%M:%S", "%A %a %B %b", "%j %U %W %V %G %u %w", "%I:%M %p %f %g", "%-d/%-m/%-y %-H", "%% %x %X %c"]
INTERVALS = ["1 day", "15 minutes", "1 month", "3 months", "1 hour", "7 days", "2 years", "1 second"]
JSONS = ['{"a": {"b": [1, 2.5, "x"]}, "c": null, "d": true}', "[1, [2, 3], {}]", '"text"', "12", "null", '{"a b": "ä"}', "[]", "{}"]
PATHS = ["$", "$.a", "$.a.b", "$.a.b[0]", "$.a.b[-1]", "a", "$.c", "$[0]", "$[1][0]", "/a/b/2", "$.x", "d"]

PLACES = ["$[0]", "$[1][0]", "$[#-1]", "$[#]", "$[2]", "$[9]", "$[-1][-1]", "/1/0", "/-", "/1/-", "$[1].a", "$.a", "$[#].a[0]"]

# Calls by the kind of their result. {s} is a text, «» are braces, {i} an integer, {k} a small one, {x} a real, {y} a finite one, {d} a date,
# {t} a timestamp, {l} a list of integers, {m} a list of texts, {j} a JSON text.
CALLS = """
length({s}) strlen({s}) len({l}) len({m}) unicode({s}) ord({s}) ascii({s}) upper({s}) ucase({s}) reverse({s})
contains({s},{s}) prefix({s},{s}) suffix({s},{s}) starts_with({s},{s}) ends_with({s},{s}) contains({l},{i})
string_split({s},{s}) str_split({s},',') string_split({s},'') split_part({s},',',{g1}) repeat({s},{k}) repeat({l},{k})
left({s},{k}) right({s},{k}) lpad({s},5,'*') rpad({s},5,'ab') translate({s},'abc','xy') replace({s},'a','bb') trim({s}) instr({s},{s})
levenshtein('abc','acb') jaccard('abc',{s}||'q') jaro_similarity({s},{s}) jaro_winkler_similarity({s},{s})
hex({s}) hex({i}) bin({i}) to_base(abs({i}::BIGINT),7) to_base64(encode({s})) url_encode({s}) url_decode({s}) md5({s}) sha1({s}) sha256({s}) bit_count({i}::INT)
like_escape({s},'%$%%','$') parse_filename({s}) parse_filename({s},true) parse_dirname({s}) parse_dirpath({s}) parse_path({s})
regexp_matches({s},{p}) regexp_full_match({s},{p}) regexp_extract({s},{p}) regexp_extract_all({s},{p}) regexp_replace({s},{p},'<>') regexp_replace({s},{p},'[\\0]','g')
string_split_regex({s},{p}) regexp_extract({s},'([a-z])([0-9]*)',{g}) regexp_extract_all({s},'([a-z])([0-9]*)',1) regexp_extract_all({s},'([a-z])([0-9]+)?',['a','b'])::VARCHAR regexp_escape({s})
printf('%d|%5d|%-5d|%05d|%x',{i},{i},{i},{i},{n}) printf('%s:%.2f|%e|%g',{s},{y},{y},{y}) format('«» «»',{s},{i}) format('«:>8»|«:<8»|«:^8»',{i},{s},{i})
format('«:.3f» «:e» «:g»',{y},{y},{y}) format('«:,»',{i}) format_bytes({i}) formatReadableDecimalSize({i}) bar({y},0,10,10)
even({y}) nextafter({x},{x}) signbit({y}) isinf({x}) isfinite({x}) isnan({x}) fdiv({y},3) fmod({y},3) round_even({y},{k}) gamma(abs({k})) lgamma(abs({k})) gamma(abs({k})+1) lgamma(abs({k})+0.5) binom(abs({k}),abs({g})) TRY_CAST({s} AS INT) TRY_CAST({x}::VARCHAR AS TINYINT) TRY_CAST({x}::VARCHAR AS BIGINT)
add({k},1) subtract({k},1) multiply({k},{k}) xor({i}::INT,{i}::INT) greatest({i},{i}) least({i},{i}) if({i}>1,{s},{s}) ifnull({s},'n') nullif({s},'a') constant_or_null('z',{i})
gcd({i},{i}) lcm({k},{k}) factorial(abs({k})) sign({y}) ceiling({y}) floor({y}) trunc({y}) degrees({y}) radians({y})
year({d}) month({d}) day({d}) quarter({d}) week({d}) dayofweek({d}) isodow({d}) dayofyear({d}) yearweek({d}) isoyear({d}) decade({d}) century({d}) era({d}) dayname({d}) monthname({d}) last_day({d}) julian({d}) days_in_month({d})
hour({t}) minute({t}) second({t}) millisecond({t}) microsecond({t}) epoch({t}) epoch_ms({t}) epoch_us({t}) julian({t}) last_day({t})
date_diff('{part}',{d},{d}) date_diff('{part}',{t},{t}) date_sub('{part}',{t},{t}) date_sub('{part}',{d},{d}) date_add({d},INTERVAL '{span}') age({t},{t})
strftime({t},'{f}') strftime({d},'{f}') strptime(strftime({t},'%Y-%m-%d %H:%M:%S.%f'),'%Y-%m-%d %H:%M:%S.%f') try_strptime({s},'%Y-%m-%d') strptime(strftime({d},'%d %B %Y'),'%d %B %Y')
time_bucket(INTERVAL '{span}',{t}) time_bucket(INTERVAL '{span}',{d}) time_bucket(INTERVAL '{span}',{t},INTERVAL '1 hour') time_bucket(INTERVAL '{span}',{t},TIMESTAMP '2001-05-07 01:00:00') time_bucket(INTERVAL '{span}',{t}::TIME)
to_days({k}) to_hours({k}) to_months({k}) to_years({k}) to_seconds({k}) to_minutes({k}) make_date(2024,abs({k})+1,abs({k})+1) make_time(abs({k}),5,{sec}) make_timestamp({i}) epoch_ms({i}) isfinite({d})
list_sort({l}) list_reverse_sort({l}) list_sort({l},'DESC') list_sort({l},'ASC','NULLS FIRST') list_sort({m}) list_sort(list_distinct({l})) list_unique({l}) list_unique({m})
list_sum({l}) list_avg({l}) list_min({l}) list_max({m}) list_count({l}) list_median({l}) list_mode([3,3,1]) list_product({l}) list_aggregate({l},'sum') list_aggregate({m},'string_agg','|') list_first({l}) list_last({m}) list_stddev_pop({l}) list_any_value({l})
list_extract({l},{k}) list_element({m},{k}) list_slice({l},1,2) list_contains({l},{i}) list_position({l},{i}) list_append({l},{i}) list_prepend({i},{l}) list_concat({l},{l}) list_reverse({l}) list_has_any({l},[1,2]) list_has_all({l},[1])
list_grade_up({l}) list_select({l},[1,3]) list_where([1,2,3],[true,false,true]) list_resize({l},{n}) list_intersect({l},[1,2]) flatten([{l},{l}]) array_to_string({m},'-') list_string_agg({m}) range(abs({k})) range(1,{k}) generate_series(1,{k})
list_inner_product([1.0,7.5],[2.0,3.0]) list_cosine_similarity([1.0,2.0],[2.0,3.0]) list_distance([1.0,2.5],[2.0,3.0])
map_contains(MAP «'a':1»,{s}) map_keys(MAP «'a':{i}») map_values(MAP «'a':{i}») cardinality(MAP «'a':1») map_from_entries([('a',{i})]) map_concat(MAP «'a':1»,MAP «'a':{i},'b':2»)
struct_pack(a:={i},b:={s}) struct_insert(«'a':{i}»,b:={s}) struct_extract(«'a':{i}»,'a') row_to_json(«'a':{i},'b':{s}»)
json_extract({j},'{path}') json_extract_string({j},'{path}') json_type({j},'{path}') json_array_length({j},'{path}') json_keys({j}) json_valid({s}) json_exists({j},'{path}') json_type({j}) to_json({s}) to_json({l}) json_object('k',{i},'l',{s}) json_array({i},{s},{y})
json_set({j},'{path}',{j}) json_insert({j},'{path}',{j}) json_replace({j},'{path}',{j}) json_remove({j},'{path}') json_set({j},'{path}',{l}) json_set('[1,[2]]','{place}',{j}) json_remove('[1,[2,3]]','{place}')
json_merge_patch({j},{j}) json_deep_merge({j},{j},{j}) json_merge_patch_diff({j},{j}) json_strip_nulls({j}) json_normalize({j}) json_pretty({j}) json_structure({j}) json_transform({j},'«"a":«"b":["VARCHAR"]»,"d":"BOOLEAN"»')
list_reduce({l},lambda_a,x:_a*2+x) list_reduce({l},lambda_a,x,i:_a+coalesce(x,i),{i}) list_reduce({m},lambda_a,x:_a||x,{s}) list_transform({l},lambda_x,i:_x*i) list_filter({l},lambda_x,i:_i>1)
length_grapheme({s}) left_grapheme({s},{k}) right_grapheme({s},{k}) substring_grapheme({s},{n},{n}) struct_position(row({i},{k}),{i}) struct_contains(row({s},{s}),{s}) struct_extract_at(«'a':{i},'b':{s}»,2)
""".split("\n")

AGGREGATES = """
count_if(i>1) product(x) median(i) median(y) median(d) median(t) quantile_cont(y,0.3) quantile_disc(i,0.3) quantile_cont(i,[0.1,0.5,1.0]) quantile_disc(s,0.5) quantile_disc(d,[0.25,0.75]) quantile_cont(t,0.25)
percentile_cont(0.4)_WITHIN_GROUP_(ORDER_BY_y) percentile_disc(0.4)_WITHIN_GROUP_(ORDER_BY_i_DESC) percentile_cont(0.4)_WITHIN_GROUP_(ORDER_BY_i_DESC) mad(y) skewness(y) kurtosis(y) kurtosis_pop(y) entropy(k) sem(y)
arg_max(id,x) arg_min(s,id) max_by(id,y) min_by(id,d) arg_max(s,id,2) arg_min(id,id,3) max(id,3) min(id,2) histogram(k) fsum(y) favg(y) bool_and(i>0) bool_or(i>0)
list(id_ORDER_BY_id) string_agg(s,'|'_ORDER_BY_id) first(id_ORDER_BY_id_DESC) last(s_ORDER_BY_id) any_value(1) bit_xor(id) geomean(id+1) weighted_avg(y,id) list_sort(list(DISTINCT_k))
stddev(y) var_pop(y) corr(y,id) covar_samp(y,id) regr_slope(y,id) count(DISTINCT_s) sum(DISTINCT_k) product(DISTINCT_k) quantile_cont(DISTINCT_k,0.5) histogram(DISTINCT_k)
""".split()


class Calls:
    def __init__(self, r):
        self.r = r
        self.calls = re.findall(r"[a-zA-Z0-9_]+\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)", "\n".join(CALLS))

    def text(self):
        text = self.r.choice(TEXTS).replace("'", "''")
        return self.r.choice(["s", "u", f"'{text}'", f"'{text}'", "NULL::VARCHAR"] if self.r.random() < 0.9 else ["NULL::VARCHAR"])

    def value(self, kind):
        r = self.r
        null = r.random() < 0.06
        if kind == "s":
            return self.text()
        if kind == "i":
            return "NULL::INT" if null else r.choice(["i", "id", f"({r.choice(INTS)})::INT"])
        if kind == "n":
            return r.choice(["id", "3", "1"])
        if kind == "g":
            return r.choice(["0", "1", "2"])
        if kind == "k":
            return "NULL::INT" if null else r.choice(["k", f"({r.choice(SMALL)})"])
        if kind == "x":
            return "NULL::DOUBLE" if null else r.choice(["x", f"({r.choice(REALS)})::DOUBLE"])
        if kind == "y":
            return "NULL::DOUBLE" if null else r.choice(["y", f"({r.choice(FINITE)})::DOUBLE"])
        if kind == "d":
            return "NULL::DATE" if null else r.choice(["d", f"DATE '{r.choice(DATES)}'"])
        if kind == "t":
            return "NULL::TIMESTAMP" if null else r.choice(["t", f"TIMESTAMP '{r.choice(DATES)} {r.choice(CLOCKS)}'"])
        if kind == "l":
            items = ["1", "2", "3", "NULL", "2", "-7", "k"]
            return "[" + ", ".join(r.choice(items) for _ in range(r.randrange(1, 5))) + "]::INT[]"
        if kind == "m":
            return "[" + ", ".join(r.choice(["'a'", "'b'", "''", "NULL", "'ä'", "s"]) for _ in range(r.randrange(1, 4))) + "]::VARCHAR[]"
        if kind == "j":
            return "'" + r.choice(JSONS) + "'"
        lists = {"p": PATTERNS, "part": PARTS, "f": FORMATS, "span": INTERVALS, "path": PATHS, "place": PLACES, "g1": ["1", "2", "-1"], "sec": ["0.0", "1.5", "59.999999"]}
        chosen = r.choice(lists[kind])
        return "'" + chosen.replace("\\\\", "\\") + "'" if kind == "p" else chosen

    def call(self):
        template = self.r.choice(self.calls).replace("\\\\", "\\")
        filled = re.sub(r"\{(\w+)\}", lambda m: self.value(m[1]), template).replace("lambda_", "lambda ").replace(":_", ": ")
        return filled.replace("«", "{").replace("»", "}")

    def query(self):
        if self.r.random() < 0.25:
            aggregate = self.r.choice(AGGREGATES).replace("_WITHIN_GROUP_", " WITHIN GROUP ").replace("ORDER_BY_", "ORDER BY ")
            aggregate = aggregate.replace("_ORDER", " ORDER").replace("_DESC", " DESC").replace("DISTINCT_", "DISTINCT ")
            is_plain = not re.match("percentile|list_sort|geomean|weighted", aggregate)
            filtered = f"{aggregate} FILTER (WHERE k > 0)" if is_plain and self.r.random() < 0.3 else aggregate
            if self.r.random() < 0.5:
                return f"SELECT CAST({filtered} AS VARCHAR) FROM t"
            return f"SELECT g, CAST({filtered} AS VARCHAR) FROM t GROUP BY g"
        return f"SELECT id, CAST({self.call()} AS VARCHAR) FROM t"


def tables(r):
    rows = []
    for n in range(24):
        cell = lambda text: "NULL" if r.random() < 0.1 else text
        quoted = lambda text: "'" + text.replace("'", "''") + "'"
        row = [str(n), str(r.randrange(4)), cell(quoted(r.choice(TEXTS))), cell(quoted(r.choice(TEXTS))), cell(r.choice(INTS)), cell(r.choice(SMALL)),
               cell(r.choice(REALS)), cell(r.choice(FINITE)), cell(f"DATE '{r.choice(DATES)}'"), cell(f"TIMESTAMP '{r.choice(DATES)} {r.choice(CLOCKS)}'")]
        rows.append(f"({', '.join(row)})")
    return ["CREATE TABLE t (id INT, g INT, s VARCHAR, u VARCHAR, i INT, k INT, x DOUBLE, y DOUBLE, d DATE, t TIMESTAMP)", f"INSERT INTO t VALUES {', '.join(rows)}"]


def number(match):
    """A number with nine digits."""
    return f"{float(match[0]):.9g}"


def cell(text):
    """A value in a form that is the same for both systems."""
    text = "" if text is None else str(text)
    text = {"true": "1", "false": "0", "t": "1", "f": "0"}.get(text.lower(), text)
    if re.match(r"^-?\d+(\.\d+)?(e[+-]?\d+)?$|^-?inf$|^-?nan$", text, re.I):
        return f"{abs(float(text)) if 'nan' in text else float(text):.9g}"
    if text[:1] in "[{(":
        text = re.sub(r"[\s'\"\\]", "", text).replace("=", ":").lower()
        text = re.sub(r"-?\d+\.\d+(e[+-]?\d+)?", number, text)
        text = re.sub(r"(\d)t(\d\d:)", r"\1\2", text)
    return text


def main():
    script, count, seed = arguments(2000)
    print(f"seed {seed}, {count} calls", flush=True)
    r = random.Random(seed)
    wrong = refused = 0
    for start in range(0, count, BATCH):
        made, generator = tables(r), Calls(r)
        queries = [generator.query() for _ in range(min(BATCH, count - start))]
        database = duckdb.connect(config={"threads": 1})
        with tempfile.TemporaryDirectory() as folder:
            create(script, folder, database, made, seed)
            answers = ours(script, folder, queries)
        for query, answer in zip(queries, answers):
            try:
                expected = sorted(tuple(map(cell, row)) for row in database.execute(query).fetchall())
            except duckdb.Error as error:
                expected = "error: " + str(error).splitlines()[0][:200]
            answer = answer if isinstance(answer, str) else sorted(tuple(map(cell, row)) for row in answer)
            more_wrong, more_refused = differ(query, answer, expected)
            wrong, refused = wrong + more_wrong, refused + more_refused
    print(f"{wrong} differ, {refused} are refused by one of both")
    return 1 if wrong or refused else 0


if __name__ == "__main__":
    sys.exit(main())

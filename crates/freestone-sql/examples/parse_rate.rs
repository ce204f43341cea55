//! Prints how many bytes of statements are parsed per second: `parse_rate FILE …`, or a statement of its own repeated.

use std::time::Instant;

const STATEMENT: &str = "SELECT o.customer, date_trunc('month', o.day) AS month, sum(l.price * (1 - l.discount)) AS revenue, \
    count(*) FILTER (WHERE l.returned) AS returned, row_number() OVER (PARTITION BY o.customer ORDER BY o.day DESC) AS r \
    FROM orders AS o JOIN lines AS l ON l.order_id = o.id LEFT JOIN customers c USING (customer) \
    WHERE o.day BETWEEN DATE '2024-01-01' AND DATE '2024-12-31' AND l.status IN ('A', 'B', 'C') AND o.note NOT LIKE '%x%' \
    GROUP BY ALL HAVING count(*) > 10 ORDER BY revenue DESC NULLS LAST LIMIT 100;\n\
    INSERT INTO t (a, b, c) VALUES (1, 'one', 1.5e0), (2, 'two', NULL), (3, 'three', DEFAULT) ON CONFLICT (a) DO NOTHING;\n";

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let text: String = match files.is_empty() {
        true => STATEMENT.repeat(2000),
        false => files.iter().map(|file| std::fs::read_to_string(file).expect("a file of statements")).collect(),
    };
    for _ in 0..5 {
        let start = Instant::now();
        let parsed = freestone_sql::parse_statements(&text);
        let seconds = start.elapsed().as_secs_f64();
        match parsed {
            Ok(statements) => {
                let megabytes = text.len() as f64 / 1e6;
                println!("{} statements, {:.1} MB/s", statements.len(), megabytes / seconds);
                let start = Instant::now();
                let printed: usize = statements.iter().map(|statement| statement.to_string().len()).sum();
                println!("  printed {:.1} MB/s", printed as f64 / 1e6 / start.elapsed().as_secs_f64());
            }
            Err(error) => println!("{} after {seconds:.3} s", error.render(&text)),
        }
    }
}

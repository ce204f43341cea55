//! The figures that the papers print, as they are printed: charts show them beside this machine's. Figures that a paper only
//! draws are not here, because nobody can read them from a drawing.

use freestone_data::holloway::Table as Generated;
use freestone_report::findings::{Bar, Cell, Part, Series, Table};

/// Holloway and DeWitt 2008, Table 2: bytes of a tuple uncompressed, bits if bit-aligned, and bytes compressed.
pub fn tuple_sizes(table: Generated) -> Option<(f64, u32, f64)> {
    match table {
        Generated::NarrowE => Some((40.0, 153, 17.0)),
        Generated::NarrowS => Some((40.0, 153, 7.0)),
        Generated::WideE => Some((200.0, 811, 100.0)),
        Generated::NarrowU => Some((40.0, 270, 34.0)),
        Generated::Strings => None,
    }
}

/// Where the columns of a table stop being faster than its rows, in the words of Holloway and DeWitt 2008.
pub struct Crossings {
    /// The section and the figure.
    pub place: &'static str,
    /// Percent of the rows, and the share of the columns.
    pub points: &'static [(f64, f64)],
}

/// The crossings of one predicate (sections 6.2 to 6.5). Of Narrow-U the paper says that they are very similar to Wide-E's.
pub fn crossings(table: Generated) -> Option<Crossings> {
    let (place, points): (_, &[(f64, f64)]) = match table {
        Generated::NarrowE => ("6.2, Figure 2", &[(0.1, 0.8), (1.0, 0.8), (10.0, 0.5), (25.0, 0.2), (50.0, 0.0)]),
        Generated::NarrowS => ("6.3, Figure 4", &[(0.1, 0.7), (1.0, 0.7), (10.0, 0.3), (50.0, 0.0)]),
        Generated::WideE => ("6.4, Figure 5", &[(0.1, 0.85), (1.0, 0.85), (10.0, 0.66), (50.0, 0.25)]),
        Generated::NarrowU => ("6.5, Figure 6", &[(0.1, 0.85), (10.0, 0.66), (50.0, 0.25)]),
        Generated::Strings => return None,
    };
    Some(Crossings { place, points })
}

/// A table of Raasveldt and Mühleisen 2017. Rows are lines, and cells are separated by commas.
struct Printed {
    number: usize,
    title: &'static str,
    text_columns: usize,
    header: &'static str,
    rows: &'static str,
}

const NETWORKS: &str = ",local s,LAN s,WAN s,GB";

const PRINTED: [Printed; 11] = [
    Printed {
        number: 1,
        title: "lineitem of SF10 over the loopback interface",
        text_columns: 1,
        header: ",s,GB",
        rows: "Netcat,10.25,7.19\nMySQL,101.22,7.44\nDB2,169.48,7.33\nDBMS X,189.50,6.35\nPostgreSQL,201.89,10.39\nMonetDB,209.02,8.97\n\
               MySQL+C,391.27,2.85\nHive,627.75,8.69\nMongoDB,686.45,43.6",
    },
    Printed {
        number: 3,
        title: "chunk sizes, of whole tables",
        text_columns: 2,
        header: ",chunk,rows per chunk,s,GB,ratio",
        rows: "lineitem,2 KB,14,55.9,6.56,1.38\nlineitem,10 KB,71,15.2,5.92,1.80\nlineitem,100 KB,710,10.9,5.81,2.12\n\
               lineitem,1 MB,7100,10.0,5.80,2.25\nlineitem,10 MB,71000,10.9,5.80,2.26\nlineitem,100 MB,710000,13.3,6.15,2.23\n\
               acs,2 KB,1,281.1,11.36,2.06\nacs,10 KB,8,46.7,9.72,3.18\nacs,100 KB,85,16.2,9.50,3.68\nacs,1 MB,850,11.9,9.49,3.81\n\
               acs,10 MB,8500,15.3,9.50,3.86\nacs,100 MB,85000,17.9,10.05,3.84\nontime,2 KB,1,162.9,8.70,2.13\n\
               ontime,10 KB,8,27.3,4.10,4.15\nontime,100 KB,85,7.6,3.47,8.15\nontime,1 MB,860,6.9,3.42,9.80\n\
               ontime,10 MB,8600,6.2,3.42,10.24\nontime,100 MB,86000,11.9,3.60,10.84",
    },
    Printed {
        number: 4,
        title: "one million rows of lineitem, by columns and by rows",
        text_columns: 2,
        header: ",,MB,ratio",
        rows: "LZ4,column,50.0,2.10\nLZ4,row,57.0,1.85\nSnappy,column,47.8,2.20\nSnappy,row,54.8,1.92\nGZIP,column,32.4,3.24\n\
               GZIP,row,38.1,2.76\nXZ,column,23.7,4.44\nXZ,row,28.1,3.74",
    },
    Printed {
        number: 5,
        title: "codecs and the cost of compression",
        text_columns: 1,
        header: ",local s,1000 Mbit/s s,100 Mbit/s s,10 Mbit/s s,MB",
        rows: "None,1.5,10.4,84.8,848,1012\nSnappy,3.3,3.8,37.3,373,447\nLZ4,4.5,4.9,38.4,383,456\nGZIP,59.8,60.4,59.6,226,272\n\
               XZ,695,689,666,649,203",
    },
    Printed {
        number: 6,
        title: "the integer columns",
        text_columns: 2,
        header: ",,local s,LAN s,WAN s,MB",
        rows: "lineitem,None,5.3,15.7,159.0,1844.2\nlineitem,Binpack,6.0,8.0,82.0,944.1\nlineitem,PFOR,5.7,8.1,82.1,948.0\n\
               lineitem,Snappy,6.8,12.3,103.9,1204.9\nlineitem,Binpack+Sy,5.8,7.5,76.4,882.0\nlineitem,PFOR+Sy,5.7,7.5,77.5,885.9\n\
               acs,None,15.2,78.6,800.6,9244.8\nacs,Binpack,120.5,133.9,421.2,4288.2\nacs,PFOR,166.8,170.1,300.9,2703.4\n\
               acs,Snappy,20.5,22.8,204.5,2434.8\nacs,Binpack+Sy,152.6,160.9,190.0,1694.6\nacs,PFOR+Sy,165.8,168.4,185.4,1203.2\n\
               ontime,None,1.3,5.8,54.4,649.1\nontime,Binpack,1.4,6.2,44.4,529.3\nontime,PFOR,1.6,5.8,44.4,528.6\n\
               ontime,Snappy,1.4,1.4,3.2,39.0\nontime,Binpack+Sy,1.8,1.9,5.7,67.7\nontime,PFOR+Sy,1.8,1.9,5.9,70.5",
    },
    Printed {
        number: 7,
        title: "the paper's format and protobuf",
        text_columns: 1,
        header: ",local s,LAN s,WAN s,MB",
        rows: "Custom,10.3,64.1,498.9,5943.3\nCustom+C,18.3,25.4,221.4,2637.4\nProtobuf,33.1,45.5,391.6,4656.1\n\
               Protobuf+C,35.7,47.3,195.2,2315.9",
    },
    Printed {
        number: 8,
        title: "forms of texts, l_returnflag",
        text_columns: 1,
        header: ",s,s Snappy,MB,ratio",
        rows: "Varint prefix,3.94,3.99,114.54,3.37\nNull-terminated,3.95,3.91,114.54,3.37\nVARCHAR(1),3.68,3.76,57.34,2.84",
    },
    Printed {
        number: 9,
        title: "forms of texts, l_comment",
        text_columns: 1,
        header: ",s,s Snappy,GB,ratio",
        rows: "Null-terminated,4.12,6.09,1.53,2.44\nVarint prefix,4.24,6.63,1.53,2.27\nVARCHAR(44),4.15,7.66,2.46,3.12\n\
               VARCHAR(100),5.07,10.13,5.59,5.69\nVARCHAR(1000),16.71,26.30,55.90,15.32\nVARCHAR(10000),171.55,216.23,559.01,20.19",
    },
    Printed {
        number: 10,
        title: "lineitem of SF10 (T: more than an hour)",
        text_columns: 1,
        header: NETWORKS,
        rows: "Netcat,9.8,62.0,696.5,7.21\nNetcat+Sy,32.3,32.2,325.2,3.55\nNetcat+GZ,405.4,425.1,405.0,2.16\n\
               MonetDB++,10.6,50.3,510.8,5.80\nMonetDB++C,15.5,19.9,200.6,2.27\nPostgreSQL++,39.3,46.1,518.8,5.36\n\
               PostgreSQL++C,42.4,43.8,229.5,2.53\nMySQL,98.8,108.9,662.8,7.44\nMySQL+C,380.3,379.4,367.4,2.85\n\
               PostgreSQL,205.8,301.1,2108.8,10.4\nDB2,166.9,598.4,T,7.32\nDBMS X,219.9,282.3,T,6.35\nHive,657.1,948.5,T,8.69\n\
               MonetDB,222.4,256.1,1381.5,8.97",
    },
    Printed {
        number: 11,
        title: "ACS (T: more than an hour)",
        text_columns: 1,
        header: NETWORKS,
        rows: "Netcat,7.62,46.2,519.1,5.38\nNetcat+Sy,21.2,22.7,213.7,2.23\nNetcat+GZ,370.7,376.3,372.0,1.23\n\
               MonetDB++,11.8,82.7,837.0,9.49\nMonetDB++C,22.0,22.4,219.0,2.49\nPostgreSQL++,43.2,72.0,787.9,8.24\n\
               PostgreSQL++C,70.6,72.0,192.2,2.17\nMySQL,334.9,321.1,507.6,5.78\nMySQL+C,601.3,580.4,536.0,1.48\n\
               PostgreSQL,277.8,265.1,1455.0,12.5\nDB2,252.6,724.5,T,10.3\nDBMS X,339.8,538.1,T,6.06\nHive,692.3,723.9,2239.2,9.70\n\
               MonetDB,446.5,451.8,961.4,9.63",
    },
    Printed {
        number: 12,
        title: "ontime",
        text_columns: 1,
        header: NETWORKS,
        rows: "Netcat,4.24,28.0,310.9,3.24\nNetcat+Sy,6.16,6.74,37.0,0.40\nNetcat+GZ,50.0,51.0,49.6,0.18\n\
           MonetDB++,6.02,30.2,308.2,3.49\nMonetDB++C,7.16,7.18,31.3,0.35\nPostgreSQL++,13.2,19.2,213.9,2.24\n\
           PostgreSQL++C,14.6,14.1,76.7,0.82\nMySQL,100.8,99.0,328.5,3.76\nMySQL+C,163.9,167.4,153.6,0.33\n\
           PostgreSQL,111.3,102.8,836.7,6.49\nDB2,113.2,314.1,3386.8,3.41\nDBMS X,149.9,281.1,1858.8,2.29\n\
           Hive,1119.1,1161.3,2418.9,5.86\nMonetDB,131.6,135.0,734.7,6.92",
    },
];

impl Printed {
    fn of(number: usize) -> Option<&'static Printed> {
        PRINTED.iter().find(|table| table.number == number)
    }

    fn cells(&self) -> impl Iterator<Item = Vec<&'static str>> {
        self.rows.lines().map(|line| line.split(',').map(str::trim).collect())
    }

    /// The numbers of a column, of the rows that begin with `key`. What is no number is left out.
    fn numbers(&self, key: &str, column: usize) -> Vec<f64> {
        let rows = self.cells().filter(|cells| cells.first() == Some(&key));
        rows.filter_map(|cells| cells.get(column)?.parse().ok()).collect()
    }

    fn part(&self) -> Part {
        let header: Vec<&str> = self.header.split(',').collect();
        let title = format!("Table {} as published: {}", self.number, self.title);
        let mut table = Table::new(title, self.text_columns, &header);
        self.cells().for_each(|cells| table.push(cells.into_iter().map(Cell::from)));
        Part::Table(table)
    }
}

/// The number of the table that a part measures again, from its title, such as `Table 5: codecs`.
fn number_of(title: &str) -> Option<usize> {
    let digits: String = title.strip_prefix("Table ")?.chars().take_while(char::is_ascii_digit).collect();
    let rest = title["Table ".len() + digits.len()..].chars().next();
    // Not what the title says of a table by another way.
    (rest.is_none() || rest == Some(':')).then(|| digits.parse().ok())?
}

/// Adds what Raasveldt and Mühleisen 2017 print: to charts of its tables, and as a table behind each that is measured again.
pub fn with_printed(parts: Vec<Part>) -> Vec<Part> {
    let mut out = vec![];
    for mut part in parts {
        let mut printed = None;
        match &mut part {
            Part::Table(table) => printed = number_of(&table.title).and_then(Printed::of).map(Printed::part),
            Part::Lines(chart) => {
                if let Some(table) = number_of(&chart.title).and_then(Printed::of) {
                    let of = |label: &str| curve(table, &chart.title, label);
                    let added: Vec<Series> = chart
                        .series
                        .iter()
                        .filter_map(|s| Some((s.label.clone(), of(&s.label)?)))
                        .filter(|(_, values)| values.len() == chart.x.len())
                        .map(|(label, values)| Series::published(&label, values))
                        .collect();
                    chart.series.extend(added);
                }
            }
            Part::Bars(chart) => {
                if let Some(table) = number_of(&chart.title).and_then(Printed::of) {
                    for group in &mut chart.groups {
                        let column = ["local", "lan", "wan-loss"].iter().position(|network| *network == group.label);
                        let added: Vec<Bar> = group
                            .bars
                            .iter()
                            .filter_map(|bar| relative_to_netcat(table, &bar.label, column?))
                            .collect();
                        group.bars.extend(added);
                    }
                }
            }
            _ => {}
        }
        out.push(part);
        out.extend(printed);
    }
    out
}

/// The published line of a chart: of Table 3 the time relative to chunks of 1 MB or the ratio, by size; of Table 5 the time
/// relative to no compression, by rate from the lowest.
fn curve(table: &Printed, title: &str, label: &str) -> Option<Vec<f64>> {
    match table.number {
        3 if title.contains("ratio") => Some(table.numbers(label, 5)),
        3 => {
            let seconds = table.numbers(label, 3);
            let of_a_megabyte = *seconds.get(3)?;
            Some(seconds.into_iter().map(|value| value / of_a_megabyte).collect())
        }
        5 => [4, 3, 2]
            .into_iter()
            .map(|column| Some(table.numbers(label, column).first()? / table.numbers("None", column).first()?))
            .collect(),
        _ => None,
    }
}

/// The time of a system relative to Netcat's on the same network, of Tables 10 to 12.
fn relative_to_netcat(table: &Printed, system: &str, network: usize) -> Option<Bar> {
    let of = |system: &str| table.numbers(system, network + 1).first().copied();
    if table.number < 10 || system == "Netcat" {
        return None;
    }
    Some(Bar::published(system, of(system)? / of("Netcat")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use freestone_report::findings::{BarGroup, Bars, Lines};

    #[test]
    fn printed_tables_have_a_cell_per_column_and_numbers_in_them() {
        for number in [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] {
            let table = Printed::of(number).expect("the table is printed");
            let columns = table.header.split(',').count();
            for cells in table.cells() {
                assert_eq!(cells.len(), columns, "Table {number}: {cells:?}");
                let numbers = &cells[table.text_columns..];
                assert!(
                    numbers.iter().all(|cell| *cell == "T" || cell.parse::<f64>().is_ok()),
                    "Table {number}: {cells:?}"
                );
            }
        }
        let sizes = Printed::of(3).map(|table| table.cells().count());
        assert_eq!(sizes, Some(18));
        // Bytes and ratios of Table 4 are of the same messages: their product is one size for all codecs, to a percent.
        let table = Printed::of(4).expect("printed");
        for cells in table.cells() {
            let [bytes, ratio] = [2, 3].map(|at| cells[at].parse::<f64>().expect("a number"));
            assert!((bytes * ratio / 105.2 - 1.0).abs() < 0.01, "{cells:?}");
        }
    }

    #[test]
    fn titles_name_tables() {
        assert_eq!(number_of("Table 5: codecs"), Some(5));
        assert_eq!(number_of("Table 3"), Some(3));
        assert_eq!(number_of("Table 12: ontime, 5,000 rows"), Some(12));
        assert!(
            ["Table 3 by Freestone's own protocol", "Tables 10", "1gbit, then 20mbit", "Table x"]
                .iter()
                .all(|t| number_of(t).is_none())
        );
    }

    #[test]
    fn published_figures_stand_beside_measured_ones() {
        let lines = |title: &str, x: &[f64], label: &str| {
            let values = vec![1.0; x.len()];
            let [title, x_label, y_label] = [title, "x", "y"].map(str::to_owned);
            Part::Lines(Lines {
                title,
                x_label,
                y_label,
                x: x.to_vec(),
                series: vec![Series::new(label, values)],
                mark: None,
            })
        };
        let group = |label: &str| BarGroup {
            label: label.into(),
            note: String::new(),
            bars: vec![Bar::new("Netcat", 1.0), Bar::new("MySQL", 2.0), Bar::new("Freestone", 0.5)],
        };
        let groups = vec![group("local"), group("wan"), group("wan-loss")];
        let bars = Part::Bars(Bars { title: "Table 10: lineitem".into(), unit: "×".into(), tie: 0.0, groups });
        let table = Part::Table(Table::new("Table 9: forms of texts", 1, &["", "s"]));
        let parts = with_printed(vec![
            lines("Table 3: time by size", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "acs"),
            lines("Table 5: time by rate", &[10.0, 100.0, 1000.0], "GZIP"),
            lines("Table 5: time by rate", &[10.0, 100.0], "GZIP"),
            bars,
            table,
        ]);
        assert_eq!(parts.len(), 6, "a published table is behind ours");
        let series = |at: usize| match &parts[at] {
            Part::Lines(chart) => chart.series.clone(),
            _ => vec![],
        };
        assert_eq!((series(0).len(), series(0)[1].is_published), (2, true));
        assert!((series(0)[1].values[0] - 281.1 / 11.9).abs() < 1e-9 && series(0)[1].values[3] == 1.0);
        assert!((series(1)[1].values[0] - 226.0 / 848.0).abs() < 1e-9 && series(1)[1].values[2] > 5.0);
        assert_eq!(series(2).len(), 1, "a chart over other rates has no line");
        let Part::Bars(chart) = &parts[3] else { panic!("bars") };
        let counts: Vec<usize> = chart.groups.iter().map(|group| group.bars.len()).collect();
        assert_eq!(counts, [4, 3, 4], "the paper's WAN loses packets");
        assert!((chart.groups[0].bars[3].value - 98.8 / 9.8).abs() < 1e-9);
    }

    #[test]
    fn crossings_are_shares_at_rising_percentages() {
        for table in Generated::ALL {
            let Some(crossings) = crossings(table) else { continue };
            assert!(crossings.points.is_sorted_by(|a, b| a.0 < b.0 && a.1 >= b.1), "{table:?}");
            assert!(crossings.place.contains("Figure"));
        }
    }
}

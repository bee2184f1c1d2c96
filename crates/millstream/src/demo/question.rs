//! Questions in SQL, and their answers as tables and as JSON.

use crate::failure::Failure;
use crate::table::{Align, Table};
use serde_json::{Map, Value};
use tokio_postgres::{Client, SimpleQueryMessage};

/// A question about a collection of the demo.
#[derive(Debug)]
pub struct Question {
    /// The question in words.
    pub words: &'static str,
    /// The same in SQL.
    pub sql: &'static str,
    /// The columns of the answer. Right-aligned columns are numbers.
    columns: &'static [(&'static str, Align)],
}

/// What the server answered, each value as PostgreSQL spells it.
#[derive(Debug)]
pub struct Answer {
    question: &'static Question,
    /// A row is a value for each column.
    pub rows: Vec<Vec<String>>,
}

/// Which countries have the most people in cities.
pub const CITIES: Question = Question {
    words: "In which countries do most people live in cities?",
    sql: include_str!("cities.sql"),
    columns: &[("country", Align::Left), ("cities", Align::Right), ("people", Align::Right), ("largest", Align::Left)],
};

/// Which devices send the most documents.
pub const TELEMETRY: Question = Question {
    words: "Which pumps report most, and how are they?",
    sql: include_str!("telemetry.sql"),
    columns: &[
        ("device", Align::Left),
        ("readings", Align::Right),
        ("mean_temperature", Align::Right),
        ("alarms", Align::Right),
    ],
};

impl Question {
    /// Asks the server.
    ///
    /// # Errors
    /// The server's.
    pub async fn ask(&'static self, client: &Client) -> Result<Answer, Failure> {
        let messages = client.simple_query(self.sql).await.map_err(millstream_pg::Error::from)?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let cell = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let rows = rows.map(|row| (0..self.columns.len()).map(|n| cell(row.get(n))).collect()).collect();
        Ok(Answer { question: self, rows })
    }
}

impl Answer {
    /// For people.
    pub fn table(&self) -> Table {
        let mut table = Table::new(self.question.columns);
        for row in &self.rows {
            table.row(row.iter().cloned());
        }
        table
    }

    /// For programs: the SQL and an object for each row.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| self.row_json(row)).collect();
        serde_json::json!({ "sql": self.question.sql, "rows": rows })
    }

    fn row_json(&self, row: &[String]) -> Value {
        let members = self.question.columns.iter().zip(row).map(|((name, align), cell)| {
            let number = (*align == Align::Right).then(|| serde_json::from_str(cell).ok()).flatten();
            ((*name).to_owned(), number.unwrap_or_else(|| Value::from(cell.as_str())))
        });
        Value::Object(members.collect::<Map<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_table_and_json() {
        let row = ["pump-0001", "12", "40.50", "0"].map(str::to_owned).to_vec();
        let answer = Answer { question: &TELEMETRY, rows: vec![row] };
        assert_eq!(
            answer.json()["rows"],
            serde_json::json!([{"device": "pump-0001", "readings": 12, "mean_temperature": 40.5, "alarms": 0}])
        );
        assert_eq!(
            answer.table().text(None),
            "DEVICE     READINGS  MEAN_TEMPERATURE  ALARMS\n\
             pump-0001        12             40.50       0\n"
        );
    }

    #[test]
    fn sql_fits_80_columns_when_indented() {
        for question in [&CITIES, &TELEMETRY] {
            assert!(question.sql.lines().all(|line| line.chars().count() <= 76), "{}", question.sql);
        }
    }
}

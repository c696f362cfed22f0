//! Tables for people, rows for machines.
use crate::{Error, Result};
use std::path::Path;

/// Prints rows under a header, columns aligned.
pub fn print(title: &str, header: &[&str], rows: &[Vec<String>]) {
    let widths: Vec<usize> = (0..header.len())
        .map(|i| {
            rows.iter().map(|r| r[i].chars().count()).chain([header[i].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells
            .zip(&widths)
            .enumerate()
            .map(|(i, (c, w))| if i == 0 { format!("{c:<w$}") } else { format!("{c:>w$}") })
            .collect();
        println!("| {} |", cells.join(" | "));
    };
    println!("\n{title}\n");
    line(&mut header.iter().copied());
    println!("|{}|", widths.iter().map(|w| "-".repeat(w + 2)).collect::<Vec<_>>().join("|"));
    for r in rows {
        line(&mut r.iter().map(String::as_str));
    }
}

/// Writes rows as `DIR/NAME.csv`.
pub fn csv(dir: &Path, name: &str, header: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let path = dir.join(format!("{name}.csv"));
    let mut text = header.join(",") + "\n";
    for r in rows {
        text += &(r.join(",") + "\n");
    }
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|e| Error::Io(path.display().to_string(), e))?;
    println!("\nraw rows: {}", path.display());
    Ok(())
}

/// The median of some numbers; 0 of none.
pub fn median(mut xs: Vec<f64>) -> f64 {
    xs.sort_by(f64::total_cmp);
    match xs.len() {
        0 => 0.0,
        n if n % 2 == 1 => xs[n / 2],
        n => (xs[n / 2 - 1] + xs[n / 2]) / 2.0,
    }
}

/// 12345.6 as "12 346".
pub fn thousands(x: f64) -> String {
    let digits = format!("{:.0}", x);
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

//! Draws the requests per second by number of connections, one line for each peer, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 210.0;
const EDGE: f64 = 40.0;
const COLORS: [&str; 8] =
    ["#888888", "#d1495b", "#2e86ab", "#7fb7be", "#edae49", "#66a182", "#b7c9a8", "#8d6a9f"];

/// The rates of a peer, one for each number of connections.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) rates: Vec<f64>,
}

/// Draws the chart. The rates have a logarithmic axis, because peers differ by orders of magnitude.
pub(crate) fn draw(connections: &[usize], lines: &[Line]) -> String {
    let rates = || lines.iter().flat_map(|line| line.rates.iter().copied());
    let low = 10_f64.powf(rates().fold(f64::INFINITY, f64::min).log10().floor());
    let high = 10_f64.powf(rates().fold(0.0, f64::max).log10().ceil());
    let x =
        |n: usize| LEFT + (WIDTH - LEFT - RIGHT) * n as f64 / (connections.len() - 1).max(1) as f64;
    let y = |rate: f64| {
        let share = (rate / low).log10() / (high / low).log10();
        HEIGHT - EDGE - (HEIGHT - 2.0 * EDGE) * share
    };
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' font-family='sans-serif' \
         font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n\
         <text x='{LEFT}' y='22' font-size='14'>acquire + release, requests per second by connections</text>\n"
    );
    let mut rate = low;
    while rate <= high * 1.001 {
        let at = y(rate);
        let end = WIDTH - RIGHT;
        let _ = writeln!(svg, "<path d='M{LEFT} {at:.1}H{end}' stroke='#dddddd'/>");
        let _ = writeln!(
            svg,
            "<text x='{}' y='{:.1}' text-anchor='end'>{rate}</text>",
            LEFT - 8.0,
            at + 4.0
        );
        rate *= 10.0;
    }
    for (n, count) in connections.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x='{:.1}' y='{}' text-anchor='middle'>{count}</text>",
            x(n),
            HEIGHT - 18.0
        );
    }
    for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
        let points: Vec<_> = line
            .rates
            .iter()
            .enumerate()
            .map(|(n, rate)| format!("{:.1},{:.1}", x(n), y(*rate)))
            .collect();
        let width = if line.name == "leasehold" { 3 } else { 1 };
        let _ = writeln!(
            svg,
            "<polyline points='{}' fill='none' stroke='{color}' stroke-width='{width}'/>",
            points.join(" ")
        );
        if let Some(last) = line.rates.last() {
            let (at, x) = (y(*last) + 4.0, WIDTH - RIGHT + 8.0);
            let _ = writeln!(svg, "<text x='{x}' y='{at:.1}' fill='{color}'>{}</text>", line.name);
        }
    }
    svg + "</svg>\n"
}

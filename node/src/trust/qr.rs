//! Draws a line of text as a QR code for a terminal: how a ticket or a PeerId crosses to a camera.

use qrcode::{EcLevel, QrCode, render::unicode::Dense1x2};

/// A QR code drawn with half blocks, two modules above each other in a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// Width in characters; on a narrower terminal the code would be torn and is better left out.
    pub columns: usize,
    /// Its lines, each closed by a line break. Colours are set and reset in every line.
    pub text: String,
}

/// White ink on black from the fixed 256-colour cube, which themes leave alone: light modules are the ink, so
/// that the code is dark on light on every terminal, as scanners want it.
const COLOURS: &str = "\x1b[38;5;231;48;5;16m";
const RESET: &str = "\x1b[0m";

/// Draws `text`; `None` if it is longer than a QR code can hold. Capitals and digits take the least space.
///
/// The light margin of four modules that ISO/IEC 18004 asks for is part of the drawing. Error correction is
/// the lowest: a screen has no scratches, and a smaller code fits more terminals.
pub fn draw(text: &str) -> Option<Drawing> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let blocks = code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark)
        .module_dimensions(1, 1)
        .build();
    let columns = blocks.lines().next().map_or(0, |line| line.chars().count());
    let text = blocks.lines().map(|line| format!("{COLOURS}{line}{RESET}\n")).collect();
    Some(Drawing { columns, text })
}

impl Drawing {
    /// The drawing without colours, for a file; it is read on a dark background.
    pub fn plain(&self) -> String {
        self.text.replace(COLOURS, "").replace(RESET, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules of a drawing, `true` for light.
    fn modules(drawing: &Drawing) -> Vec<Vec<bool>> {
        let bare = drawing.text.replace(COLOURS, "").replace(RESET, "");
        let pair = |block: char| match block {
            '█' => [true, true],
            '▀' => [true, false],
            '▄' => [false, true],
            ' ' => [false, false],
            other => panic!("{other:?} is no half block"),
        };
        bare.lines()
            .flat_map(|line| [0, 1].map(|half| line.chars().map(|block| pair(block)[half]).collect()))
            .collect()
    }

    #[test]
    fn the_drawing_is_the_code_with_a_light_margin() {
        let text = "KETCH1ABCDEFG";
        let drawing = draw(text).unwrap();
        let code = QrCode::with_error_correction_level(text, EcLevel::L).unwrap();
        let drawn = modules(&drawing);
        assert_eq!(drawing.columns, code.width() + 8);
        for (y, row) in drawn.iter().enumerate().take(code.width() + 8) {
            for (x, &light) in row.iter().enumerate() {
                let inside = (4..code.width() + 4).contains(&x) && (4..code.width() + 4).contains(&y);
                let dark = inside && code[(x - 4, y - 4)] == qrcode::Color::Dark;
                assert_eq!(light, !dark, "module {x}, {y}");
            }
        }
    }

    #[test]
    fn every_line_has_the_stated_width() {
        let drawing = draw("KETCH1").unwrap();
        assert!(modules(&drawing).iter().all(|row| row.len() == drawing.columns));
    }

    #[test]
    fn capitals_are_drawn_smaller() {
        let line = "ketch1".repeat(30);
        assert!(draw(&line.to_uppercase()).unwrap().columns < draw(&line).unwrap().columns);
    }

    #[test]
    fn text_that_no_code_can_hold_is_left_out() {
        assert_eq!(draw(&"x".repeat(3_000)), None);
    }
}

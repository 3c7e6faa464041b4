package visible

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text into lines of at most width characters, between words where it can; no line is empty. A width of 0 or less is any,
// and leaves the text as it is.
func Wrap(text string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for _, piece := range pieces(word, width) {
			switch {
			case line == "":
				line = piece
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(piece) <= width:
				line += " " + piece
			default:
				lines = append(lines, line)
				line = piece
			}
		}
	}
	return append(lines, line)
}

// pieces are a word, cut where it is longer than width.
func pieces(word string, width int) []string {
	runes := []rune(word)
	var out []string
	for len(runes) > width {
		out = append(out, string(runes[:width]))
		runes = runes[width:]
	}
	return append(out, string(runes))
}

package gpu

import (
	"slices"
	"strings"
)

// NearestWord returns the word of from that is most like word, for "did you
// mean". Case does not count. Among equally near ones the first in from wins.
// It gives "" when nothing is near: when more than a third of word's letters,
// and at least two, would have to change.
//
// Nothing is near to more than 256 bytes.
//
// Distance: insertions, deletions, changes of one letter and swaps of two
// neighbors count one each (optimal string alignment; Damerau 1964).
func NearestWord(word string, from []string) string {
	if len(word) > longestWord {
		return ""
	}
	best, near := "", max(2, len(word)/3)+1
	for _, w := range from {
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d < near && d < len(w) {
			best, near = w, d
		}
	}
	return best
}

// longestWord is the most bytes that are compared: the time is their square.
const longestWord = 256

// distance counts the single edits between a and b, byte by byte.
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// Nearest returns the name of the known product most like name, or "" when none
// is near. A part of a name ("A100", "h100-pcie") gives the first product, by
// name, with all its words; otherwise letters are compared as in NearestWord.
func Nearest(name string) string {
	words := productWords(name)
	if len(words) == 0 {
		return ""
	}
	var names []string
	for _, p := range catalog {
		have := productWords(p.Name)
		if !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(have, w) }) {
			return p.Name
		}
		names = append(names, strings.Join(have, " "))
	}
	if near := NearestWord(strings.Join(words, " "), names); near != "" {
		return catalog[slices.Index(names, near)].Name
	}
	// The model alone: "A100-40GB-XYZ" is still an A100.
	for _, p := range catalog {
		if slices.Contains(productWords(p.Name), words[0]) {
			return p.Name
		}
	}
	return ""
}

// productWords splits a name into lower-case words, without the maker's.
func productWords(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune(" -_/", r) })
	return slices.DeleteFunc(words, func(w string) bool {
		return slices.Contains([]string{"nvidia", "tesla", "geforce", "shared"}, w)
	})
}

// ShortName is a product, or the label that names it, without what people do
// not say: the maker, the line, the module and the kind of memory. "NVIDIA
// A100-SXM4-40GB" is "A100-40GB".
func ShortName(product string) string {
	parts := strings.FieldsFunc(product, func(r rune) bool { return r == ' ' || r == '-' })
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool {
		return p == "NVIDIA" || p == "Tesla" || p == "GeForce" || strings.HasPrefix(p, "SXM") || strings.HasPrefix(p, "HBM")
	}), "-")
}

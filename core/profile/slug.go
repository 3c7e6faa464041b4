package profile

import (
	"fmt"
	"strings"
)

// plain spells letters and signs in ASCII. Each entry is the characters, a blank
// and what stands for them; "'" and what is no letter or digit separate words.
//
// Source: the transliteration tables that python-slugify uses (text-unidecode),
// for the letters and signs of western and central European names.
var plain = func() map[rune]string { //nolint:gochecknoglobals // a table
	out := map[rune]string{}
	for _, entry := range []string{
		"àáâãäåāăąǎ a", "æ ae", "çćĉċč c", "ďđð d", "èéêëēĕėęě e", "ĝğġģ g", "ĥħ h", "ìíîïĩīĭįıǐ i", "ĳ ij", "ĵ j", "ķ k",
		"ĺļľł l", "ŀ l-", "ñńņň n", "ŋ ng", "òóôõöøōŏőǒ o", "œ oe", "ŕŗř r", "śŝşšſ s", "ß ss", "ţťŧ t", "þ th", "ùúûüũūŭůűųǔ u", "ŵ w",
		"ýÿŷ y", "źżž z",
		"ÀÁÂÃÄÅĀĂĄǍ a", "Æ ae", "ÇĆĈĊČ c", "ĎĐÐ d", "ÈÉÊËĒĔĖĘĚ e", "ĜĞĠĢ g", "ĤĦ h", "ÌÍÎÏĨĪĬĮİǏ i", "Ĳ ij", "Ĵ j", "Ķ k",
		"ĹĻĽŁ l", "Ŀ l-", "ÑŃŅŇ n", "Ŋ ng", "ÒÓÔÕÖØŌŎŐǑ o", "Œ oe", "ŔŖŘ r", "ŚŜŞŠ s", "ŢŤŦ t", "Þ th", "ÙÚÛÜŨŪŬŮŰŲǓ u", "Ŵ w",
		"ÝŸŶ y", "ŹŻŽ z",
		"° deg", "® (r)", "© (c)", "™ tm", "¹ 1", "² 2", "³ 3", "µ m", "¼ 1/4", "½ 1/2", "¾ 3/4", "× x", "÷ /",
		"‘’‛ '", "«»·¡¿ -",
	} {
		from, to, _ := strings.Cut(entry, " ")
		for _, r := range from {
			out[r] = to
		}
	}
	return out
}()

// separators are ranges of signs that separate words, such as dashes and arrows,
// and pictures are ranges of what is left out, by the same tables.
var (
	separators = [][2]rune{
		{0xa0, 0xa0},
		{0x2000, 0x200b},
		{0x2010, 0x2017},
		{0x201a, 0x201a},
		{0x201c, 0x2029},
		{0x202f, 0x202f},
		{0x2035, 0x2049},
		{0x2190, 0x21b6},
		{0x21b8, 0x21b9},
		{0x21bb, 0x23ff},
		{0x2500, 0x2572},
		{0x2574, 0x25bb},
		{0x25c0, 0x25ee},
		{0x25f0, 0x25ff},
		{0x2614, 0x2618},
		{0x2672, 0x2700},
		{0x275f, 0x2760},
		{0x27b0, 0x27b0},
		{0x27bf, 0x27bf},
		{0xfe0f, 0xfe0f},
	}
	pictures = [][2]rune{
		{0x200c, 0x200f},
		{0x202a, 0x202e},
		{0x2032, 0x2034},
		{0x2600, 0x2613},
		{0x2619, 0x2671},
		{0x2701, 0x275e},
		{0x2761, 0x27af},
		{0x27b1, 0x27be},
		{0xfeff, 0xfeff},
		{0x1f1e6, 0x1f1ff},
		{0x1f300, 0x1faff},
	}
)

// within reports whether a character is in one of the ranges.
func within(r rune, ranges [][2]rune) bool {
	for _, each := range ranges {
		if r >= each[0] && r <= each[1] {
			return true
		}
	}
	return false
}

// Slugify makes the slug of a display_name that has none, as kubespawner does: in
// lower case, runs of anything but a-z and 0-9 as one '-', none at its ends, and
// accents dropped. The error is for names that it cannot spell in ASCII as
// JupyterHub would; such a profile needs a slug of its own.
func Slugify(name string) (string, error) {
	text := entities.Replace(name)
	if entity(text) {
		return "", fmt.Errorf("display_name %q: an HTML entity; give the profile a slug", name)
	}
	var b strings.Builder
	for _, r := range strings.ReplaceAll(text, "'", "-") {
		to, known := plain[r]
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case known:
			b.WriteString(strings.ReplaceAll(to, "'", ""))
		case within(r, separators):
			b.WriteByte('-')
		case within(r, pictures):
		default:
			return "", fmt.Errorf("display_name %q: %q is not spelled in ASCII; give the profile a slug", name, r)
		}
	}
	slug := dashed(strings.ToLower(b.String()))
	if slug == "" {
		return "", fmt.Errorf("display_name %q gives no slug; give the profile one", name)
	}
	return slug, nil
}

// dashed puts one '-' for each run of what is no a-z or 0-9, and none at the ends.
// A comma between digits is dropped.
func dashed(text string) string {
	var b strings.Builder
	gap := false
	for i := range len(text) {
		c := text[i]
		switch {
		case letterOrDigit(c):
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteByte(c)
		case c == ',' && i > 0 && digit(text[i-1]) && i+1 < len(text) && digit(text[i+1]):
		default:
			gap = true
		}
	}
	return b.String()
}

func digit(c byte) bool         { return c >= '0' && c <= '9' }
func letterOrDigit(c byte) bool { return digit(c) || c >= 'a' && c <= 'z' }

// entities are the HTML entities of signs, which all separate words.
var entities = strings.NewReplacer("&amp;", "-", "&lt;", "-", "&gt;", "-", "&quot;", "-", "&nbsp;", "-") //nolint:gochecknoglobals // a table

// entity reports whether a text has any other HTML entity.
func entity(text string) bool {
	for {
		_, after, found := strings.Cut(text, "&")
		if !found {
			return false
		}
		name, _, closed := strings.Cut(after, ";")
		if closed && name != "" && strings.Trim(strings.ToLower(name), "#abcdefghijklmnopqrstuvwxyz0123456789") == "" {
			return true
		}
		text = after
	}
}

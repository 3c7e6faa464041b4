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
		"ĺļľŀł l", "ñńņň n", "ŋ ng", "òóôõöøōŏőǒ o", "œ oe", "ŕŗř r", "śŝşšſ s", "ß ss", "ţťŧ t", "þ th", "ùúûüũūŭůűųǔ u", "ŵ w",
		"ýÿŷ y", "źżž z",
		"ÀÁÂÃÄÅĀĂĄǍ a", "Æ ae", "ÇĆĈĊČ c", "ĎĐÐ d", "ÈÉÊËĒĔĖĘĚ e", "ĜĞĠĢ g", "ĤĦ h", "ÌÍÎÏĨĪĬĮİǏ i", "Ĳ ij", "Ĵ j", "Ķ k",
		"ĹĻĽĿŁ l", "ÑŃŅŇ n", "Ŋ ng", "ÒÓÔÕÖØŌŎŐǑ o", "Œ oe", "ŔŖŘ r", "ŚŜŞŠ s", "ŢŤŦ t", "Þ th", "ÙÚÛÜŨŪŬŮŰŲǓ u", "Ŵ w",
		"ÝŸŶ y", "ŹŻŽ z",
		"° deg", "® (r)", "© (c)", "™ tm", "¹ 1", "² 2", "³ 3", "µ u", "¼ 1/4", "½ 1/2", "¾ 3/4", "× x", "÷ /",
		"‘’‚‛ '", "–—―‐‑‒“”„«»…•·¡¿ -",
	} {
		from, to, _ := strings.Cut(entry, " ")
		for _, r := range from {
			out[r] = to
		}
	}
	return out
}()

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
		case r >= 0x2000 && r <= 0x200a, r == 0xa0, r == 0x202f, r >= 0x2190 && r <= 0x21ff:
			b.WriteByte('-') // spaces and arrows
		case r >= 0x200b && r <= 0x200f, r == 0xfe0f, r >= 0x2600 && r <= 0x27bf, r >= 0x10000:
			// pictures, and what has no width
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

// entity says whether a text has any other HTML entity.
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

package profile_test

import (
	"regexp/syntax"
	"strings"
	"testing"

	"berth.dev/berth/core/profile"
)

// rows: JH-41
func TestRegexMatchesAsPythonsReMatch(t *testing.T) {
	for _, tt := range []struct{ regex, match, no string }{
		{`^.+:.+$`, "a:b", "a:"},
		{`pangeo/`, "pangeo/ml:1", "x/pangeo/"}, // the start, not the end
		{`a|b`, "bc", "cb"},
		{`[\w.-]+/[\w.-]+:\d+$`, "quay.io/ä_b:١", "a/b:x"},
		{`^\S+$`, "ab", "a\u00a0b"},
		{`[^\s:]+:x`, "a\x1b:x", "a b:x"},
		{`{x}`, "{x}", "x"},
		{`[]a]+$`, "]a", "b"},
		{`[[:alpha:]]+`, "h]", "b"}, // Python knows no POSIX classes: one of [:alph and then ]
		{`(?i)QUAY`, "quay", "x"},
		{`(?i:Q)x`, "qx", "qX"},
		{`\/\-\:`, "/-:", "/"},
		{`\d+\D`, "1x", "11"},
		{`\W\w`, "-x", "xx"},
		{`[\d-]+$`, "1-2", "1a"},
	} {
		re, err := profile.Regex(tt.regex)
		if err != nil {
			t.Errorf("Regex(%q): %v", tt.regex, err)
			continue
		}
		if !re.MatchString(tt.match) {
			t.Errorf("Regex(%q) does not match %q; it is %s", tt.regex, tt.match, re)
		}
		if re.MatchString(tt.no) {
			t.Errorf("Regex(%q) matches %q; it is %s", tt.regex, tt.no, re)
		}
	}
}

func TestRegexRefusesWithAReason(t *testing.T) {
	for regex, why := range map[string]string{
		`(?=a)`: "look ahead", `(?!latest)`: "look ahead", `(?<=a)b`: "look behind", `(?<!a)b`: "look behind",
		`(a)\1`: "reference back", `\07`: `\0 is not supported`,
		`(?P<a>x)(?P=a)`: "only (?:...) and (?i)", `(?>a)`: "only (?:...) and (?i)", `(a)?(?(1)b)`: "only (?:...) and (?i)",
		`(?#x)`: "only (?:...) and (?i)", `(?x)a`: "only (?:...) and (?i)", `(?i`: "only (?:...) and (?i)",
		`a{,2}`: "write {0,n}", `a\Z`: `\Z is not supported`, `\x41`: `\x is not supported`, `[\b]`: `\b is not supported`,
		`(`: "does not compile", `[a`: "not closed", `a**`: "does not compile", `a++`: "does not compile",
		`\p{L}`: "not supported", `\`: "stands at the end", `\Qa\E`: "not supported",
		`[\W]`: `\W in a class`, `[\S]`: `\S in a class`, `[\w-z]`: "range",
		`[z-a]`: "does not compile", strings.Repeat("a", 5000): "at most 4096",
	} {
		if _, err := profile.Regex(regex); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("Regex(%.20q): error %v, want one with %q", regex, err, why)
		}
	}
}

func FuzzRegex(f *testing.F) {
	for _, seed := range []string{`^.+:.+$`, `[\w.-]+`, `(?i)a{,2}`, `[[:alpha:]]`, `\u00e4\x{1}`, `(?:a|b)*?$`, "\\\xff", `[^]]`} {
		f.Add(seed, "quay.io/a:b")
	}
	f.Fuzz(func(t *testing.T, regex, text string) {
		re, err := profile.Regex(regex)
		if err != nil {
			return
		}
		if _, err := syntax.Parse(re.String(), syntax.Perl); err != nil {
			t.Fatalf("Regex(%q) gives %s: %v", regex, re, err)
		}
		if at := re.FindStringIndex(text); at != nil && at[0] != 0 {
			t.Fatalf("Regex(%q) matches %q from %d on", regex, text, at[0])
		}
	})
}

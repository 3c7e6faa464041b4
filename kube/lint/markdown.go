package lint

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// block is a block of code of a document, or a text that a shell command reads from it.
type block struct {
	language string
	text     string // each line as it stands, with as many empty lines before it as are before it in the document
	line     int    // of its first line in the document, from 1
}

// fence begins or ends a block of code in Markdown.
var fence = regexp.MustCompile("^( {0,3})(```+|~~~+) *([A-Za-z0-9_+-]*)")

// document returns the blocks of a document of Markdown, or of a shell script. ok is false for other files.
func document(file string, data []byte) (blocks []block, ok bool) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".sh", ".bash":
		return scripts(block{language: "sh", text: string(data), line: 1}), true
	case ".md", ".markdown":
	default:
		return nil, false
	}
	var open *block
	mark, lines := "", strings.SplitAfter(string(data), "\n")
	for i, line := range lines {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			mark = m[2]
			open = &block{language: strings.ToLower(m[3]), text: strings.Repeat("\n", i+1), line: i + 2}
		case open != nil && m != nil && strings.HasPrefix(m[2], mark) && m[3] == "":
			blocks = append(blocks, scripts(*open)...)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return blocks, true
}

// here begins a text for the command of its line, which ends with the word.
var here = regexp.MustCompile(`<<(-?) *["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)

// command begins a block of commands, which some documents call YAML for the manifests in it.
var command = regexp.MustCompile(`^\s*(?:#.*\n\s*)*\$? *kubectl [a-z]`)

func isYAML(language string) bool { return language == "yaml" || language == "yml" }

// scripts returns a block, and the manifests that it hands to kubectl, if it is a script.
func scripts(b block) []block {
	switch lang := b.language; {
	case slices.Contains([]string{"sh", "bash", "shell", "console", "zsh"}, lang), isYAML(lang) && command.MatchString(b.text):
		b.language = "sh"
	case isYAML(lang):
		b.language = "yaml"
		return []block{b}
	case lang == "promql", lang == "prometheus":
		b.language = "promql"
		return []block{b}
	default:
		return nil
	}
	out, lines := []block{b}, strings.SplitAfter(b.text, "\n")
	for i := 0; i < len(lines); i++ {
		m := here.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		var text strings.Builder
		text.WriteString(strings.Repeat("\n", i+1))
		first := i + 1
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != m[2]; i++ {
			text.WriteString(lines[i])
		}
		if strings.Contains(text.String(), "kind:") {
			out = append(out, block{language: "yaml", text: text.String(), line: first + 1})
		}
	}
	return out
}

// continued is a backslash that looks as if it continued a command, and does not.
var continued = regexp.MustCompile(`\\[ \t]+(#.*)?$`)

// useless is commands that cannot do what they are meant for.
var useless = []struct {
	command *regexp.Regexp
	say, do string
}{
	{
		regexp.MustCompile(`^\s*\$?\s*kubectl +resource-capacity\b.*gpu`),
		"kubectl resource-capacity counts CPU and memory, and knows no GPUs", "use `berth nodes`",
	},
	{
		regexp.MustCompile(`^\s*\$?\s*kubectl +rollout +restart +(daemonset|ds)[ /].*device-plugin`),
		"a restart of the device plugin alone reads a new configuration only where the plugin is started with it, and changes what pods on its nodes share",
		"before it, look at the pods that hold GPUs: berth gpus",
	},
}

// shell applies the rules of shell commands.
func (f *manifests) shell(b block) {
	lines := strings.Split(b.text, "\n")
	until := "" // the word that ends a text which a command reads
	for i, line := range lines {
		if until != "" {
			if strings.TrimSpace(line) == until {
				until = ""
			}
			continue
		}
		if m := here.FindStringSubmatch(line); m != nil {
			until = m[2]
		}
		text := strings.TrimRight(line, "\r")
		say := func(one Finding) {
			one.File, one.Line, one.Object = f.file, i+1, "shell command"
			f.add(one)
		}
		if continued.MatchString(text) && !strings.HasPrefix(strings.TrimSpace(text), "#") && i+1 < len(lines) {
			say(Finding{Finding: fail("shell-continuation", "a space or a comment follows the backslash, so the command ends in this line, and the next is run as a separate command",
				"end the line with the backslash, and move the comment to a line before the command")})
		}
		for _, a := range useless {
			if a.command.MatchString(text) {
				say(Finding{Finding: warn("shell-command", a.say, a.do)})
			}
		}
	}
}

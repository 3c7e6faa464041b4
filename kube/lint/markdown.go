package lint

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// block is a block of code of a document, a text that a shell command reads from it, or the document without its code.
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
	text := block{language: "prose", line: 1}
	mark, lines := "", strings.SplitAfter(string(data), "\n")
	for i, line := range lines {
		m := fence.FindStringSubmatch(line)
		if open == nil && m == nil {
			text.text += line
		} else {
			text.text += "\n"
		}
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
	return append(blocks, text), true
}

// here begins a text for the command of its line, which ends with the word.
var here = regexp.MustCompile(`<<(-?) *["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)

// command begins a block of commands, which some documents call YAML for the manifests in it.
var command = regexp.MustCompile(`^\s*(?:#.*\n\s*)*\$? *(?:kubectl|helm) [a-z]`)

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

// useless is commands that cannot do what they are meant for, or need care.
var useless = []struct {
	command *regexp.Regexp
	say, do string
}{
	{
		regexp.MustCompile(`^kubectl +(resource-capacity\b.*gpu|krew +install +resource-capacity\b)`),
		"kubectl resource-capacity counts CPU and memory, and knows no GPUs", "use `berth nodes`",
	},
	{
		regexp.MustCompile(`^kubectl +rollout +restart +(daemonset|ds)[ /].*device-plugin`),
		"a restart of the device plugin alone reads a new configuration only where the plugin is started with it, and changes what pods on its nodes share",
		"before it, look at the pods that hold GPUs: berth gpus",
	},
	{
		regexp.MustCompile(`^kubectl +delete +(pods?|po)\b.*nvidia-device-plugin`),
		"the pods of the device plugin that replace these read a ConfigMap only where the plugin is started with it, so nothing else changes",
		"NVIDIA's chart: --set-file config.map.config=FILE; GPU Operator: devicePlugin.config in the ClusterPolicy",
	},
	{
		regexp.MustCompile(`^kubectl +(get|taint|label|cordon|drain|describe) +(nodes?|no)\b.*(-l|--selector)[ =]*(accelerator|gpu-model|gpu-type|nvidia\.com/gpu)(=|\b[^.])`),
		"no node has this label unless an administrator sets it, and then the command selects none", `use -l nvidia.com/gpu.present=true, which GPU Feature Discovery sets`,
	},
	{
		regexp.MustCompile(`^kubectl +patch +jobs?(\.batch)?[ /].*/?spec(/|":\s*\{\s*")template`),
		"the template of a Job cannot be changed while it is not suspended: the API server refuses it", "write it in the manifest, then delete and create the Job",
	},
	{
		regexp.MustCompile(`^kubectl +debug +node/\S+ (?:.* )?--image[ =](ubuntu|busybox|alpine|debian)\b(?:[^c]|c[^h])*$`),
		"the image of the debugging container has no nvidia-smi", "add -- chroot /host nvidia-smi, or run berth doctor node on the node",
	},
}

// gone is addresses at which there is nothing, as far as is known.
var gone = []struct {
	address *regexp.Regexp
	say, do string
}{
	{
		regexp.MustCompile(`github\.com/kubernetes-sigs/kubectl-gpu\b`),
		"this repository could not be found, and no kubectl plugin of that name is known from there", "use `berth nodes` and `berth gpus`, or `kubectl berth nodes` where kubectl-berth is installed",
	},
}

// prose applies the rules of the text around blocks of code, and of commands that use the same addresses.
func (f *manifests) prose(b block) {
	for i, line := range strings.Split(b.text, "\n") {
		for _, a := range gone {
			if a.address.MatchString(line) {
				f.add(Finding{Finding: warn("link", a.say, a.do), File: f.file, Line: i + 1, Object: "link"})
			}
		}
	}
}

// waitsReady is a wait for a pod to be ready.
var waitsReady = regexp.MustCompile(`^kubectl +wait\b.*condition=[Rr]eady\b.*\bpod/(\S+)`)

// misleading says of a command that cannot do what it is meant for why, and what does. It reads the command whole: its lines are joined.
func (f *manifests) misleading(command string) (say, do string) {
	command = strings.TrimPrefix(strings.TrimSpace(command), "$ ")
	for _, a := range useless {
		if a.command.MatchString(command) {
			return a.say, a.do
		}
	}
	if m := waitsReady.FindStringSubmatch(command); m != nil {
		for _, o := range f.objects {
			if policy := textAt(o.root, "spec", "restartPolicy"); o.kind == "Pod" && o.name == m[1] && policy != "" && policy != "Always" {
				return "the pod " + m[1] + " ends, and a pod that has ended is not ready: the wait can last until its timeout", "kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/" + m[1]
			}
		}
	}
	return "", ""
}

// whole is the command that begins in a line of a script, with the lines that continue it: after a backslash, or in an open quote.
func whole(lines []string, i int) string {
	const most = 20 // lines
	var parts []string
	quotes := 0
	for n := 0; n < most && i+n < len(lines); n++ {
		line := strings.TrimRight(lines[i+n], " \t\r")
		parts = append(parts, strings.TrimSuffix(line, "\\")+" ")
		if quotes += strings.Count(line, "'"); !strings.HasSuffix(line, "\\") && quotes%2 == 0 {
			break
		}
	}
	return strings.Join(parts, "")
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
		if seen, do := f.misleading(whole(lines, i)); seen != "" {
			say(Finding{Finding: warn("shell-command", seen, do)})
		}
	}
}

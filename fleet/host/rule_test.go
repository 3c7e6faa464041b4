package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/fleet/host"
)

func TestParseRule(t *testing.T) {
	tests := []struct {
		name, text string
		want       host.Rule
		err        string
	}{
		{"blanks cut words", "a*=serve  -p {port}", host.Rule{Pattern: "a*", Words: []string{"serve", "-p", "{port}"}}, ""},
		{"the first equals sign ends the pattern", "a=b=c", host.Rule{Pattern: "a", Words: []string{"b=c"}}, ""},
		{"single quotes keep all", `a=sh -c 'echo "$x" \n'`, host.Rule{Pattern: "a", Words: []string{"sh", "-c", `echo "$x" \n`}}, ""},
		{"double quotes keep backslashes but for four characters", `a=x "p\"q\\r\n\$"`, host.Rule{Pattern: "a", Words: []string{"x", `p"q\r\n$`}}, ""},
		{"a backslash keeps the next character", `a=x y\ z`, host.Rule{Pattern: "a", Words: []string{"x", "y z"}}, ""},
		{"quotes may stand inside a word and be empty", `a=--token='' ""`, host.Rule{Pattern: "a", Words: []string{"--token=", ""}}, ""},
		{"nothing else of a shell is done", "a=x $HOME | y; z >f", host.Rule{Pattern: "a", Words: []string{"x", "$HOME", "|", "y;", "z", ">f"}}, ""},
		{"without an equals sign it is refused", "jupyter", host.Rule{}, "write PATTERN=CMD"},
		{"without a pattern it is refused", " =x", host.Rule{}, "write PATTERN=CMD"},
		{"without a command it is refused", "a= ", host.Rule{}, "no command after the ="},
		{"with an empty command it is refused", "a='' x", host.Rule{}, "no command after the ="},
		{"an open single quote is refused", "a='x", host.Rule{}, "a single quote is not closed"},
		{"an open double quote is refused", `a="x`, host.Rule{}, "a double quote is not closed"},
		{"a backslash at the end is refused", `a=x\`, host.Rule{}, "ends with a backslash"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := host.ParseRule(tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("ParseRule(%q) error = %v, want %q in it", tt.text, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ParseRule(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		pattern, image string
		want           bool
	}{
		{"jupyter*", "jupyter/base-notebook:2024-01-08", true},
		{"jupyter*", "quay.io/jupyter/base-notebook:2024-01-08", true},
		{"jupyter*", "kubeflownotebookswg/jupyter-scipy:v1.9.2", true},
		{"jupyter*", "registry:5000/team/notjupyter", false},
		{"base-notebook", "quay.io/jupyter/base-notebook:2024-01-08", true}, // the tag may be left out
		{"base-notebook", "quay.io/jupyter/base-notebook@sha256:0123", true},
		{"base-notebook:1", "quay.io/jupyter/base-notebook:2", false},
		{"*:1.?", "x/y:1.2", true},
		{"*:1.?", "x/y:1.23", false},
		{"registry:5000/team/x", "registry:5000/team/x:1", true},
		{"*", "anything/at/all", true},
		{"a*b*c", "axxbxbxc", true},
		{"a*b*c", "axxbxbxd", false},
		{"", "x", false},
	}
	for _, tt := range tests {
		if got := (host.Rule{Pattern: tt.pattern}).Matches(tt.image); got != tt.want {
			t.Errorf("%q matches %q = %v, want %v", tt.pattern, tt.image, got, tt.want)
		}
	}
}

func TestTheFirstRuleThatFitsCounts(t *testing.T) {
	rules, err := host.ParseRules([]string{"jupyter/base*=one", "jupyter*=two"})
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{"jupyter/base-notebook": "one", "jupyter/scipy": "two"} {
		if r, ok := rules.Find(image); !ok || r.Words[0] != want {
			t.Errorf("Find(%s) = %v %v, want %s", image, r, ok, want)
		}
	}
	if r, ok := rules.Find("nginx"); ok {
		t.Errorf("Find(nginx) = %v", r)
	}
}

// slow is a pattern match by trying every length for a star.
func slow(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		for i := 0; i <= len(name); i++ {
			if slow(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	return name != "" && (pattern[0] == '?' || pattern[0] == name[0]) && slow(pattern[1:], name[1:])
}

func FuzzMatches(f *testing.F) {
	f.Add("a*b?c", "axbyc")
	f.Add("**a", "ba")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 8 || len(name) > 12 || strings.ContainsAny(name, "/:@") {
			t.Skip() // those have a meaning of their own
		}
		if got, want := (host.Rule{Pattern: pattern}).Matches(name), slow(pattern, name); got != want {
			t.Errorf("%q matches %q = %v, want %v", pattern, name, got, want)
		}
	})
}

// FuzzParseRule holds that any word comes back when it is quoted.
func FuzzParseRule(f *testing.F) {
	f.Add("a b", `it's "x" \`)
	f.Fuzz(func(t *testing.T, a, b string) {
		quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
		got, err := host.ParseRule("p=x " + quote(a) + " " + quote(b))
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"x", a, b}; !slices.Equal(got.Words, want) {
			t.Errorf("words are %q, want %q", got.Words, want)
		}
	})
}

func TestEnviron(t *testing.T) {
	this := []string{
		"PATH=/bin", "LANG=C.UTF-8", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=x", "KUBECONFIG=/k", "HOME=/home/me", "https_proxy=http://me:secret@proxy",
		"GITHUB_TOKEN=x", "SSH_AUTH_SOCK=/s", "HF_TOKEN=mine", "LD_LIBRARY_PATH=/opt/cuda/lib64", "MODEL=mine", "PYTHONPATH=/src",
	}
	container := []string{
		"PATH=/evil", "HOME=/root", "LD_PRELOAD=/x.so", "PYTHONPATH=/x", "BASH_ENV=/x", "BASH_FUNC_ls%%=() { x; }", "NODE_OPTIONS=-r x",
		"JUPYTER_CONFIG_DIR=/x", "BERTH_PORT=1", "KUBERNETES_SERVICE_HOST=10.96.0.1", "TZ=a\x00b", "LD_LIBRARY_PATH=/evil", "MODEL=llama",
		"http_proxy=http://evil", "PIP_INDEX_URL=http://evil", "EDITOR=evil", "PROMPT_COMMAND=evil", "JULIA_LOAD_PATH=/x", "XDG_CONFIG_HOME=/x",
		"NB_PREFIX=/notebook/ns/nb", "NVIDIA_VISIBLE_DEVICES=GPU-1", "NODE_NAME=n1", "PYTHONUNBUFFERED=1", "JUPYTER_ENABLE_LAB=yes", "PORT=80",
	}
	own := []string{"HOME=/data/home", "PORT=4711"}
	for _, tt := range []struct {
		name            string
		pass, want, out []string
	}{
		{
			"what a program needs, and no more", nil,
			[]string{
				"PATH=/bin", "LANG=C.UTF-8", "LC_ALL=C",
				"NB_PREFIX=/notebook/ns/nb", "NVIDIA_VISIBLE_DEVICES=GPU-1", "NODE_NAME=n1", "PYTHONUNBUFFERED=1", "JUPYTER_ENABLE_LAB=yes", "PORT=4711",
				"HOME=/data/home",
			},
			[]string{
				"PATH", "HOME", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "BASH_FUNC_ls%%", "NODE_OPTIONS", "JUPYTER_CONFIG_DIR", "BERTH_PORT",
				"KUBERNETES_SERVICE_HOST", "TZ", "LD_LIBRARY_PATH", "MODEL", "http_proxy", "PIP_INDEX_URL", "EDITOR", "PROMPT_COMMAND", "JULIA_LOAD_PATH", "XDG_CONFIG_HOME",
			},
		},
		{
			"what is named: of the container, else of this program, and what changes programs of this program alone",
			[]string{"HF_*", "MODEL", "LD_LIBRARY_PATH", "PYTHONPATH", "PIP_*", "BERTH_*", "HOME"},
			[]string{
				"PATH=/bin", "LANG=C.UTF-8", "LC_ALL=C", "HOME=/data/home", "HF_TOKEN=mine", "LD_LIBRARY_PATH=/opt/cuda/lib64", "MODEL=llama", "PYTHONPATH=/src",
				"PIP_INDEX_URL=http://evil",
				"NB_PREFIX=/notebook/ns/nb", "NVIDIA_VISIBLE_DEVICES=GPU-1", "NODE_NAME=n1", "PYTHONUNBUFFERED=1", "JUPYTER_ENABLE_LAB=yes", "PORT=4711",
			},
			[]string{
				"PATH", "HOME", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "BASH_FUNC_ls%%", "NODE_OPTIONS", "JUPYTER_CONFIG_DIR", "BERTH_PORT",
				"KUBERNETES_SERVICE_HOST", "TZ", "LD_LIBRARY_PATH", "http_proxy", "EDITOR", "PROMPT_COMMAND", "JULIA_LOAD_PATH", "XDG_CONFIG_HOME",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env, out := host.Environ(this, container, own, tt.pass)
			if diff := cmp.Diff(tt.want, env); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.out, out); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckPass(t *testing.T) {
	if err := host.CheckPass([]string{"HF_TOKEN", "HF_*", "_x1"}); err != nil {
		t.Errorf("names are refused: %v", err)
	}
	for _, bad := range []string{"", "*", "HF_TOKEN=x", "A B", "1A", "A*B"} {
		if err := host.CheckPass([]string{bad}); err == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}

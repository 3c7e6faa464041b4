package host

import (
	"regexp"
	"slices"
	"strings"
)

// inherited are the variables of this program that a process gets: what a
// program needs to start and to speak its user's language, no credentials.
var inherited = regexp.MustCompile(`^(PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|USER|LOGNAME|SHELL|TERM|TMPDIR)$`)

// refused are variables of a pod that a process does not get: those that make
// the loader, a shell or an interpreter run something else, or look for its
// files elsewhere, those that name places of this machine, and the addresses of
// the simulated network, which mean something else outside of it.
var refused = regexp.MustCompile(`^(PATH|HOME|PWD|SHELL|USER|LOGNAME|TMPDIR|TERM|ENV|IFS|PS4|CDPATH|LOCPATH|NLSPATH|HOSTALIASES|RES_OPTIONS|` +
	`IPYTHONDIR|JUPYTER_(CONFIG|DATA|RUNTIME)_DIR|JUPYTER_(CONFIG_)?PATH|` +
	`(LD|DYLD|BASH|PYTHON|PERL|PERL5|RUBY|JAVA|_JAVA|JDK|GIT|SSH|GCONV|GLIBC|MALLOC|OPENSSL|KUBERNETES_SERVICE|BERTH)_.*|` +
	`NODE_(OPTIONS|PATH|EXTRA_.*)|PYTHON[A-Z]+|PERL5[A-Z]+|RUBY[A-Z]+|R_(HOME|PROFILE|ENVIRON).*|LUA_.*)$`)

// harmless are names that refused would take with it.
var harmless = []string{"PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING"}

// names are what a shell calls a variable; exported functions, for one, are not.
var names = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Environ is the environment of a process, as KEY=value: of this program's what
// it needs, of the container's what is safe, and then own, which wins. out names
// the variables of the container that were left out.
func Environ(this, container, own []string) (env, out []string) {
	index := map[string]int{}
	set := func(kv string) {
		key, _, _ := strings.Cut(kv, "=")
		if i, ok := index[key]; ok {
			env[i] = kv
			return
		}
		index[key] = len(env)
		env = append(env, kv)
	}
	for _, kv := range this {
		if key, _, _ := strings.Cut(kv, "="); inherited.MatchString(key) {
			set(kv)
		}
	}
	for _, kv := range container {
		key, value, _ := strings.Cut(kv, "=")
		switch {
		case !names.MatchString(key), strings.ContainsRune(value, 0), refused.MatchString(key) && !slices.Contains(harmless, key):
			out = append(out, key)
		default:
			set(kv)
		}
	}
	for _, kv := range own {
		set(kv)
	}
	return env, out
}

// value is the value of a variable in a list of KEY=value, "" if it is not there.
func value(env []string, key string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

package host

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// inherited are the variables of this program that a process gets: what a
// program needs to start and to speak its user's language, no credentials.
var inherited = regexp.MustCompile(`^(PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|USER|LOGNAME|SHELL|TERM|TMPDIR)$`)

// wanted are the variables of a container that its process gets: settings of the
// programs that people put there, which name no file and no program.
var wanted = regexp.MustCompile(`^(HOSTNAME|NODE_NAME|POD_(NAME|NAMESPACE|IP|UID)|PORT|LANG|LANGUAGE|LC_[A-Z]+|TZ|` +
	`NB_PREFIX|JUPYTER_(TOKEN|ENABLE_LAB)|CUDA_VISIBLE_DEVICES|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)|` +
	`PYTHON(UNBUFFERED|HASHSEED|DONTWRITEBYTECODE|IOENCODING))$`)

// refused are variables of a container that its process does not get even where they
// are named: those that make the loader, a shell or an interpreter run something
// else, or look for its files elsewhere, those that name places of this machine, and
// the addresses of the simulated network, which mean something else outside of it.
var refused = regexp.MustCompile(`^(PATH|HOME|PWD|SHELL|USER|LOGNAME|TMPDIR|TERM|ENV|IFS|PS4|CDPATH|LOCPATH|NLSPATH|HOSTALIASES|RES_OPTIONS|` +
	`IPYTHONDIR|JUPYTER_(CONFIG|DATA|RUNTIME)_DIR|JUPYTER_(CONFIG_)?PATH|` +
	`(LD|DYLD|BASH|PYTHON|PERL|PERL5|RUBY|JAVA|_JAVA|JDK|GIT|SSH|GCONV|GLIBC|MALLOC|OPENSSL|KUBERNETES_SERVICE|BERTH)_.*|` +
	`NODE_(OPTIONS|PATH|EXTRA_.*)|PYTHON[A-Z]+|PERL5[A-Z]+|RUBY[A-Z]+|R_(HOME|PROFILE|ENVIRON).*|LUA_.*)$`)

// names are what a shell calls a variable; exported functions, for one, are not.
var names = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckPass refuses what is no name of a variable for Options.Pass.
func CheckPass(pass []string) error {
	for _, name := range pass {
		if !names.MatchString(strings.TrimSuffix(name, "*")) {
			return fmt.Errorf("host environment %q: write the name of a variable, such as HF_TOKEN, or the start of names and a *, such as HF_*", name)
		}
	}
	return nil
}

// passes reports whether a variable is one of those that are named: by its name, or by
// its begin and a *.
func passes(pass []string, key string) bool {
	return slices.ContainsFunc(pass, func(name string) bool {
		begin, many := strings.CutSuffix(name, "*")
		return key == name || many && strings.HasPrefix(key, begin)
	})
}

// Environ is the environment of a process, as KEY=value: of this program's what
// it needs, of the container's what is safe, of both what pass names, and then own,
// which wins. out names the variables of the container that were left out.
func Environ(this, container, own, pass []string) (env, out []string) {
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
		if key, _, _ := strings.Cut(kv, "="); inherited.MatchString(key) || passes(pass, key) {
			set(kv)
		}
	}
	for _, kv := range container {
		key, value, _ := strings.Cut(kv, "=")
		named := passes(pass, key) && names.MatchString(key) && !refused.MatchString(key)
		if strings.ContainsRune(value, 0) || !named && !wanted.MatchString(key) {
			out = append(out, key)
			continue
		}
		set(kv)
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

package explain

import (
	"cmp"
	"fmt"
	"strings"
)

// Explain reads why the API server made no pod, or no other object, of a workload.
// The texts are those of Kubernetes' admission plugins and validation; what none
// of them said is told as it is.
func (f *Facts) Explain(text string) (Reason, string) {
	if d := f.refused(text); d.text != "" {
		return d.reason, d.text
	}
	switch {
	case strings.Contains(text, "exceeded quota: "):
		return Quota, f.overQuota(text)
	case strings.Contains(text, "failed quota: "):
		return Quota, unsaid(text)
	case strings.Contains(text, "error looking up service account"), strings.Contains(text, `serviceaccount "`) && strings.Contains(text, "not found"):
		name := quoted(text, `serviceaccount "`)
		return MissingServiceAccount, fmt.Sprintf(
			"service account %s does not exist in namespace %s; create it (kubectl create serviceaccount %s -n %s), or take serviceAccountName out", name, f.Namespace, name, f.Namespace)
	case strings.Contains(text, "no PriorityClass with name "):
		name, _, _ := strings.Cut(after(text, "no PriorityClass with name "), " ")
		return MissingPriorityClass, "priority class " + name + " does not exist; name one of kubectl get priorityclasses, or take priorityClassName out"
	case strings.Contains(text, "violates PodSecurity"):
		level, _, _ := strings.Cut(quoted(text, `violates PodSecurity "`), ":")
		return Refused, fmt.Sprintf("namespace %s takes only pods of Pod Security level %s, and this pod does not meet it: %s; change that, or ask for a namespace of another level",
			f.Namespace, level, strings.TrimSpace(after(after(text, "violates PodSecurity"), ": ")))
	case strings.Contains(text, "is invalid: "), strings.Contains(text, ": Invalid value: "), strings.Contains(text, ": Required value"):
		return Invalid, invalid(text)
	case strings.Contains(text, "admission webhook "):
		return Refused, "a rule of this cluster refuses its pod: admission webhook " + after(text, "admission webhook ")
	}
	return Refused, "the API server refuses its pod: " + cause(text)
}

// overQuota reads "exceeded quota: NAME, requested: R=1,S=2, used: R=2, limited:
// R=2" and tells of the first resource that is over.
func (f *Facts) overQuota(text string) string {
	rest := after(text, "exceeded quota: ")
	name, _, _ := strings.Cut(rest, ",")
	asked, used, limit := pairs(rest, "requested: "), pairs(rest, "used: "), pairs(rest, "limited: ")
	if len(asked) == 0 || len(used) == 0 || len(limit) == 0 {
		return "quota " + name + " of namespace " + f.Namespace + " refuses its pod: " + cause(text)
	}
	what := asked[0][0]
	out := fmt.Sprintf("quota %s of namespace %s allows %s of %s, %s are used, and this asks for %s",
		name, f.Namespace, valueOf(limit, what), what, valueOf(used, what), asked[0][1])
	if f.Rivals.Here != "" {
		out += "; held here by " + f.Rivals.Here
	}
	return out + "; stop " + cmp.Or(f.Others, "another workload") + ", ask for less, or ask for a larger quota"
}

// unsaid reads "failed quota: NAME: must specify limits.cpu for: c1; memory for: c2".
func unsaid(text string) string {
	name, rest, _ := strings.Cut(after(text, "failed quota: "), ": ")
	return "quota " + name + " requires a value in every container, and one has none: " + rest + "; add it"
}

// invalid tells what validation says, with a better word for the usual mistake:
// an extended resource has a limit, and a request that is equal or absent.
func invalid(text string) string {
	text = after(text, "is invalid: ")
	if strings.Contains(text, "Limit must be set for non overcommitable resources") {
		return "a GPU has a request and no limit; write the limit, and the request follows: " + text
	}
	if strings.Contains(text, "must be equal to") && strings.Contains(text, "limit") {
		return "a GPU request differs from its limit; write the limit only: " + text
	}
	return "its pod cannot be created as written: " + text
}

// cause is text without what Kubernetes puts before the cause: "create Pod x in
// StatefulSet y failed error: ..." and `pods "x" is forbidden: ...`.
func cause(text string) string {
	return after(after(text, " failed error: "), "is forbidden: ")
}

// after is what follows mark in text; all of text where it is not in it.
func after(text, mark string) string {
	if _, rest, ok := strings.Cut(text, mark); ok {
		return rest
	}
	return text
}

// quoted is what stands between mark, which ends with a quote, and the next quote.
func quoted(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// pairs reads the list of "resource=amount" that begins after mark. It ends with
// ", ".
func pairs(text, mark string) [][2]string {
	_, rest, ok := strings.Cut(text, mark)
	if !ok {
		return nil
	}
	list, _, _ := strings.Cut(rest, ", ")
	var out [][2]string
	for pair := range strings.SplitSeq(list, ",") {
		if k, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok {
			out = append(out, [2]string{k, v})
		}
	}
	return out
}

func valueOf(list [][2]string, key string) string {
	for _, p := range list {
		if p[0] == key {
			return p[1]
		}
	}
	return "?"
}

package explain

import (
	"fmt"
	"strings"
)

// refused reads why the API server created no pod, where the text says more than Explain
// otherwise tells. The texts are those of Kubernetes' admission plugins.
func (f *Facts) refused(text string) diagnosis {
	switch {
	case strings.Contains(text, "failed quota: "):
		return diagnosis{CodeQuotaUnsaid, Quota, unsaid(text)}
	case strings.Contains(text, "exceeded quota: "), strings.Contains(text, "error looking up service account"), strings.Contains(text, "violates PodSecurity"):
		return diagnosis{}
	case strings.Contains(text, "more memory of one GPU than any GPU of the cluster has"):
		return diagnosis{CodeGPUMemory, NoSuchGPU, lastOf(text, "denied request: ")}
	case strings.Contains(text, " usage per "):
		return diagnosis{CodeLimitRange, Refused, f.limited(text)}
	case strings.Contains(text, "failed calling webhook "):
		return diagnosis{CodeWebhook, Refused, fmt.Sprintf("admission webhook %s does not answer, so no pod can be created: %s; see that its Service has ready pods, or delete its configuration",
			quoted(text, `failed calling webhook "`), lastPart(text))}
	case strings.Contains(text, "RuntimeClass ") && strings.Contains(text, "not found"):
		return diagnosis{CodeRuntimeClass, Refused, fmt.Sprintf("runtime class %s does not exist; name one of kubectl get runtimeclasses, or remove runtimeClassName", quoted(text, `RuntimeClass "`))}
	case strings.Contains(text, "because it is being terminated"):
		return diagnosis{CodeNamespaceEnds, Refused, fmt.Sprintf("namespace %s is being deleted, so nothing can be created in it; use another namespace", f.Namespace)}
	case strings.Contains(text, "cannot create resource"):
		return diagnosis{CodeRights, Refused, fmt.Sprintf("its controller may not create it: %s; an administrator grants the right with a Role and a RoleBinding", cause(text))}
	case strings.Contains(text, "already exists"):
		return diagnosis{CodeNameTaken, Refused, "an object of that name already exists and belongs to something else: " + cause(text) + "; delete it, or use another name"}
	case strings.Contains(text, "the integer value of priority"), strings.Contains(text, "the string value of PreemptionPolicy"):
		return diagnosis{CodePriorityClass, Refused, "priority or preemptionPolicy contradicts its priority class; write priorityClassName only: " + cause(text)}
	}
	return diagnosis{}
}

// limited reads "maximum nvidia.com/gpu usage per Container is 4, but limit is 8".
func (f *Facts) limited(text string) string {
	rest := cause(text)
	if i := strings.LastIndex(rest, ": "); i >= 0 && strings.Contains(rest[i:], " usage per ") {
		rest = rest[i+2:]
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]")
	return fmt.Sprintf("a LimitRange of namespace %s does not allow it: %s; change the request, or split it over several pods", f.Namespace, rest)
}

// lastPart is what follows the last ": " of a chain of errors.
func lastPart(text string) string {
	return text[strings.LastIndex(text, ": ")+1:][min(1, len(text)-strings.LastIndex(text, ": ")-1):]
}

// FailedCode is the code of a pod that has failed, by its status: "REASON: MESSAGE".
//
// Source: the kubelet's admission handlers, eviction manager, and active deadline handler.
func FailedCode(status string) Code {
	reason, message, _ := strings.Cut(status, ": ")
	switch {
	case strings.Contains(message, "maximum request size for shared resources"):
		return CodeManyShares
	case reason == "UnexpectedAdmissionError", strings.HasPrefix(reason, "OutOf") && strings.Contains(reason, "/"):
		return CodeAdmission
	case reason == "PodOSNotSupported", strings.HasPrefix(reason, "PodOSSelector"):
		return CodePlatform
	case reason == "Evicted":
		return CodeEvicted
	case reason == "DeadlineExceeded":
		return CodeDeadline
	case reason == "NodeLost", reason == "NodeShutdown", reason == "Terminated" && strings.Contains(message, "node shutdown"):
		return CodeNodeLost
	case strings.HasPrefix(reason, "OutOf"), reason == "NodeAffinity", reason == "TaintToleration", reason == "NodePorts", reason == "Preempting", reason == "NodeName":
		return CodeKubelet
	}
	return CodeFailed
}

// lastOf is what follows the last mark in text; all of text if it has none.
func lastOf(text, mark string) string {
	if i := strings.LastIndex(text, mark); i >= 0 {
		return text[i+len(mark):]
	}
	return text
}

package explain

import "strings"

// Code is the stable name of a cause, such as "BERTH-C03": see Catalog.
type Code string

// The codes of what keeps a workload from having a pod, its pod from being looked at, and
// a pod that has a node from running.
const (
	CodeQuota     Code = "BERTH-A01"
	CodeInvalid   Code = "BERTH-A03"
	CodeRefused   Code = "BERTH-A04"
	CodeStopped   Code = "BERTH-A05"
	CodeReference Code = "BERTH-A07"
	CodeGate      Code = "BERTH-B01"
	CodeGang      Code = "BERTH-B05"
	CodeScheduler Code = "BERTH-B07"
	CodePulling   Code = "BERTH-F02"
	CodeImage     Code = "BERTH-F03"
	CodeConfig    Code = "BERTH-F04"
	CodeCrash     Code = "BERTH-F08"
	CodeFailed    Code = "BERTH-F10"
)

// The codes of what keeps a workload off nodes.
const (
	CodeNoGPUNode    Code = "BERTH-C01"
	CodeNotOffered   Code = "BERTH-C02"
	CodeHeld         Code = "BERTH-C03"
	CodeFragmented   Code = "BERTH-C04"
	CodeTooLarge     Code = "BERTH-C05"
	CodeResourceName Code = "BERTH-C06"
	CodeTaint        Code = "BERTH-C07"
	CodeSelector     Code = "BERTH-C08"
	CodeSelectorFull Code = "BERTH-C09"
	CodeCordoned     Code = "BERTH-C10"
	CodeNotReady     Code = "BERTH-C11"
	CodeCPU          Code = "BERTH-C12"
	CodeOther        Code = "BERTH-C13"
	CodeClaim        Code = "BERTH-C14"
	CodeVolumeZone   Code = "BERTH-C15"
	CodePodAffinity  Code = "BERTH-C16"
	CodeSpread       Code = "BERTH-C17"
	CodeUnhealthy    Code = "BERTH-C20"
	CodeInit         Code = "BERTH-C24"
	CodeClique       Code = "BERTH-C28"
	CodeNodeName     Code = "BERTH-C29"
	CodeGPUMemory    Code = "BERTH-C30"
)

// codeOf names a gap; total is that all nodes have it.
func codeOf(g *Gap, total bool) Code {
	switch g.Check {
	case CheckOffered:
		if total && g.Has == "" {
			return CodeNoGPUNode
		}
		return CodeResourceName
	case CheckSelector, CheckAffinity:
		switch {
		case !total:
			return CodeSelectorFull
		case g.Check == CheckAffinity:
			return CodeNodeAffinity
		}
		return CodeSelector
	case CheckSharing:
		return CodeQueueSharing
	case CheckQuota:
		return CodeQueueQuota
	case CheckTaint:
		return CodeTaint
	case CheckVolume:
		return CodeVolumeZone
	case CheckClosed:
		return codeOfClosed(g.Subject)
	case CheckGPUs:
		switch g.Remedy {
		case Mends:
			return CodeUnhealthy
		case Never:
			if g.By != "" {
				return CodeInit
			}
			return CodeTooLarge
		case Waits:
		}
		return CodeHeld
	case CheckGPUMemory:
		if g.Remedy == Waits {
			return CodeGPUMemoryHeld
		}
		return CodeGPUMemory
	case CheckClique:
		return CodeClique
	case CheckCPU, CheckMemory:
		if g.By != "" {
			return CodeInit
		}
		if g.Check == CheckMemory {
			return CodeMemory
		}
		return CodeCPU
	case CheckPodAffinity:
		return CodePodAffinity
	case CheckAntiAffinity:
		return CodeAntiAffinity
	case CheckSpread:
		return CodeSpread
	case CheckPort:
		return CodeHostPort
	case CheckPods:
		return CodePods
	case CheckResource:
		switch {
		case g.Subject == "ephemeral-storage":
			return CodeStorage
		case strings.HasPrefix(g.Subject, "hugepages-"):
			return CodeHugePages
		}
	}
	return CodeOther
}

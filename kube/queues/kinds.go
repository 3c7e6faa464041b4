package queues

import (
	"slices"

	"berth.dev/berth/core/quota"
)

// SetKinds completes a workload by the kinds of GPUs that each of its pods may use, as Asked
// returns them. Where they differ, pods that may use one kind alone count as of it, and the others
// choose between the kinds that all of these may use, else that one of them may. Pods that ask for no GPU
// have no say.
func SetKinds(w *quota.Workload, kinds [][]quota.Kind) {
	if len(kinds) == 1 { // a pod alone
		if len(w.Pods[0].Pieces) > 0 {
			w.Kinds = kinds[0]
		}
		return
	}
	say := make([]int, 0, len(kinds))
	for i := range kinds {
		if len(w.Pods[i].Pieces) > 0 {
			say = append(say, i)
		}
	}
	if len(say) == 0 {
		return
	}
	w.Kinds = kinds[say[0]]
	if !slices.ContainsFunc(say, func(i int) bool { return !slices.Equal(kinds[i], w.Kinds) }) {
		return
	}
	var common []quota.Kind
	var all []quota.Kind
	for _, i := range say {
		of := kinds[i]
		switch {
		case len(of) == 1:
			for j := range w.Pods[i].Pieces {
				w.Pods[i].Pieces[j].Product, w.Pods[i].Pieces[j].Labels = of[0].Product, of[0].Labels
			}
			continue
		case len(all) == 0:
			common = slices.Clone(of)
		default:
			common = slices.DeleteFunc(common, func(k quota.Kind) bool { return !slices.Contains(of, k) })
		}
		all = append(all, of...)
	}
	if w.Kinds = common; len(common) == 0 {
		slices.SortFunc(all, compareKinds)
		w.Kinds = slices.Compact(all)
	}
}

// Chooses reports whether the kind of GPUs that a pod gets is not known yet: see SetKinds.
func Chooses(p *quota.Pod) bool {
	return slices.ContainsFunc(p.Pieces, func(piece quota.Piece) bool { return piece.Product == "" && piece.Labels == "" })
}

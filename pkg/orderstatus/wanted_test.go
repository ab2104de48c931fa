package orderstatus

import "testing"

// What is read as an entry is written again as an entry that reads the same; everything else is refused.
func FuzzDecodeWanted(f *testing.F) {
	for _, seed := range []string{
		"p1|00112233445566778899aabbccddeeff|01890a5d-ac96-774b-bcce-b302099a8057|1700000000000",
		"p1|00112233445566778899aabbccddeeff|01890a5d-ac96-774b-bcce-b302099a8057|0",
		"", "|||", "p1|x|y|0", "p 1|00112233445566778899aabbccddeeff|01890a5d-ac96-774b-bcce-b302099a8057|0", "a|b|c|d|e",
		"p1|00112233445566778899AABBCCDDEEFF|01890a5d-ac96-774b-bcce-b302099a8057|-1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, member string) {
		w, err := decodeWanted(member)
		if err != nil {
			return
		}
		again, err := decodeWanted(w.encode())
		if err != nil || again != w {
			t.Fatalf("%q is read as %+v and then as %+v, %v", member, w, again, err)
		}
	})
}

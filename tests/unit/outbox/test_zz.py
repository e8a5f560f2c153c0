from collections import Counter
import tests.unit.outbox.test_properties as t
from hypothesis import settings, HealthCheck
C=Counter()
class M(t.OutboxMachine):
    def teardown(self):
        C["examples"]+=1
        C["placed"]+=len(self.world.exchange.placed)
        for s in self.world.states().values(): C[str(s)]+=1
        C["dec"]+=self.world.rows("select count(*) from decision")[0][0]
        super().teardown()
T=M.TestCase
T.settings=settings(max_examples=150, stateful_step_count=40)
class TestX(T): pass
def test_z(): print(C)

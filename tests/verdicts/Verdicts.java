import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.net.InetAddress;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/** Lines in, words parted by tabs: `begin`, `rule`, `ask`, `any`. For each question one line out, ALLOWED or DENIED. */
public class Verdicts {
    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "CLIENTS"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.SASL_SSL; }
        public int requestType() { return 3; }
        public int requestVersion() { return 12; }
        public String clientId() { return "verdicts"; }
        public int correlationId() { return 1; }
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        var out = new BufferedWriter(new OutputStreamWriter(System.out, "UTF-8"));
        StandardAuthorizer authorizer = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] word = line.split("\t", -1);
            if (word[0].equals("begin")) {
                authorizer = new StandardAuthorizer();
                authorizer.configure(Map.of(StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, word[1]));
                authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                authorizer.completeInitialLoad();
            } else if (word[0].equals("rule")) {
                authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.valueOf(word[1]), word[2], PatternType.valueOf(word[3]), word[4], word[5],
                    AclOperation.valueOf(word[6]), AclPermissionType.valueOf(word[7])));
            } else {
                String[] principal = word[1].split(":", 2);
                var context = new Context(new KafkaPrincipal(principal[0], principal[1]), InetAddress.getByName(word[2]));
                var operation = AclOperation.valueOf(word[3]);
                var type = ResourceType.valueOf(word[4]);
                out.write(word[0].equals("any")
                    ? authorizer.authorizeByResourceType(context, operation, type).name()
                    : authorizer.authorize(context, List.of(new Action(
                        operation, new ResourcePattern(type, word[5], PatternType.LITERAL), 1, false, false))).get(0).name());
                out.newLine();
            }
        }
        out.flush();
    }
}
